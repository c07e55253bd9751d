"""Jobs with a priority: a queue's three levels in one pool of a daemon, and the refusal of a push that nobody works."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, queue, started, working
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.enqueue_options import EnqueueOptions
from goworkers_py.config.options import Config, PoolConfig, QueueConfig
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.runtime.fetching import fetcher

LEVELS = ["mail@high", "mail", "mail@low"]


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig("mail", 1, priorities=True), poll_interval=0.1) as app:
        yield app


def queues_of(app: App) -> list[list[str]]:
    return [list(pool.queues) for pool in app.runner.plan().pools]


def test_high_jobs_run_before_the_others_and_low_ones_after_them(
    app: App, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    # When the machine pauses, jobs go back, and it may take longer for that than the fetcher waits.
    monkeypatch.setattr(fetcher, "LONGEST_RETURN_S", 30.0)
    ran: list[str] = []

    @app.job(queue="mail")
    def send(word: str) -> None:
        ran.append(word)

    with started(app):  # a push looks for a process that works the level, and remembers that of each level
        for priority in ("low", "high"):
            send.set(priority=priority).enqueue("warm")
        assert eventually(lambda: ran == ["warm"] * 2)
        redis.sadd("paused", "mail")
    for _ in range(20):
        for priority in ("low", "normal", "high"):
            send.set(priority=priority).enqueue(priority)
    assert [redis.llen(f"queue:{level}") for level in LEVELS] == [20, 20, 20]
    assert {json.loads(raw)["queue"] for raw in queue(redis, "mail@high")} == {"mail@high"}
    assert {b"mail@high", b"mail", b"mail@low"} <= redis.smembers("queues")
    ran.clear()
    redis.delete("paused")
    with working(app):
        assert eventually(lambda: len(ran) == 60)
    assert ran == ["high"] * 20 + ["normal"] * 20 + ["low"] * 20


def test_a_queue_has_levels_only_where_somebody_asks_for_them(redis_url: str) -> None:
    with own_app(redis_url, QueueConfig("mail"), QueueConfig("other")) as app:
        assert queues_of(app) == [["mail"], ["other"]]
        app.job("Alert", queue="mail", priority="high")(print)
        assert queues_of(app) == [LEVELS, ["other"]]
        assert [one.name for one in app.runner.plan().queues] == [*LEVELS, "other"]


def test_the_levels_of_a_queue_of_a_pool_stand_around_it(redis_url: str) -> None:
    pool = PoolConfig("web", ("critical", "mail"))
    with own_app(redis_url, QueueConfig("critical"), QueueConfig("mail", priorities=True)) as app:
        app.use(dataclasses.replace(app.config, pools=(pool,)))
        assert queues_of(app) == [["critical", *LEVELS]]
        app.use(dataclasses.replace(app.config, pools=(dataclasses.replace(pool, weights=(2, 1)),)))
        with pytest.raises(ConfigError, match=r"\[pool:web\] weights: queue mail has priorities"):
            app.runner.plan()


def test_a_level_is_not_worked_twice(redis_url: str) -> None:
    refused = pytest.raises(ConfigError, match="queue mail@low: it is worked with queue mail")
    with own_app(redis_url, QueueConfig("mail", priorities=True), QueueConfig("mail@low")) as app, refused:
        app.runner.plan()
    with own_app(redis_url, QueueConfig("mail@high"), QueueConfig("mail")) as app:  # by hand, each with its threads
        assert queues_of(app) == [["mail@high"], ["mail"]]


def test_a_handler_and_the_links_of_a_queue_are_those_of_its_levels(app: App, redis: redis_py.Redis) -> None:
    seen: list[tuple[str, str]] = []

    class Link:
        def call(self, queue: str, message: Any, call_next: Any) -> bool:
            seen.append(("link", queue))
            return bool(call_next())

    app.process("mail", lambda message: seen.append(("handler", message.queue)), 1, Link())
    app.use(dataclasses.replace(app.config, queues=(QueueConfig("mail", 1, priorities=True),)))
    with working(app):
        app.enqueue_with_options("mail", "Any", [], EnqueueOptions(priority="low"))
        assert eventually(lambda: len(seen) == 2)
    assert seen == [("link", "mail@low"), ("handler", "mail@low")]


def test_a_retry_and_a_scheduled_job_keep_their_level(app: App, redis: redis_py.Redis) -> None:
    failures = [ValueError()]
    ran: list[str] = []

    @app.job(queue="mail", priority="high", retry_in=lambda *_: 0.05)
    def send(word: str) -> None:
        if failures:
            raise failures.pop()
        ran.append(app_queue())

    def app_queue() -> str:
        from goworkers_py import current_message

        message = current_message()
        assert message is not None
        return message.queue

    with working(app):
        send.enqueue("now")
        send.enqueue_in(0.05, "later")
        assert eventually(lambda: len(ran) == 2)
    assert ran == ["mail@high"] * 2


def test_a_pause_of_a_queue_holds_for_its_levels_and_a_level_is_paused_alone(app: App, redis: redis_py.Redis) -> None:
    ran: list[str] = []

    @app.job(queue="mail")
    def send(word: str) -> None:
        ran.append(word)

    with started(app) as launcher:
        pauses = launcher._services.pauses
        app.inspector.pause("mail")
        assert eventually(lambda: pauses._paused == set(LEVELS))
        for priority in ("high", "normal", "low"):
            send.set(priority=priority).enqueue(priority)
        told = {one.name: one.paused for one in app.inspector.queues()}
        assert told == {"mail": True, "mail@high": True, "mail@low": True}
        assert app.inspector.queue("mail@low").paused  # type: ignore[union-attr]
        app.inspector.pause("mail@low")
        app.inspector.resume("mail")
        assert eventually(lambda: sorted(ran) == ["high", "normal"])  # the queue and its levels resume one by one
        assert app.inspector.queue("mail@low").paused  # type: ignore[union-attr]
        app.inspector.resume("mail@low")
        assert eventually(lambda: ran[2:] == ["low"])


def test_a_push_is_refused_where_no_live_process_works_its_level(app: App, redis_url: str) -> None:
    send = app.job("Send", queue="mail")(print)
    with pytest.raises(ArgumentError, match=r"no live process works queue mail: start a process with this job"):
        send.set(priority="high").enqueue("a")
    with own_app(redis_url, QueueConfig("mail")) as plain, working(plain):
        app.use(app.config)  # a client that has not looked yet
        with pytest.raises(ArgumentError, match=r"no live process works queue mail@low: \S+ .* work mail without"):
            send.set(priority="low").enqueue("a")
        assert send.set(priority="normal").enqueue("a")
    assert app.inspector.queue("mail@high") is None


def test_a_priority_does_not_go_with_a_level(app: App) -> None:
    for priority in ("high", "normal", "low"):
        with pytest.raises(ArgumentError, match="'mail@low' is a level already; give the queue 'mail'"):
            app.enqueue_with_options("mail@low", "Send", [], EnqueueOptions(priority=priority))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="priority must be high, normal or low, is 3"):
        EnqueueOptions(priority=3)  # type: ignore[arg-type]
    assert app.enqueue("mail@low", "Send", [])  # a queue like any other


def test_a_queue_without_priorities_refuses_code_that_names_one() -> None:
    app = App()
    app.use(Config(broker="memory://levels", queues=(QueueConfig("m", priorities=False),)))
    app.runner.plan()
    app.job("Alert", queue="m", priority="high")(print)
    with pytest.raises(ConfigError, match=r"\[queue:m\] priorities = no: the code of job Alert names a priority"):
        app.runner.plan()


def test_a_level_of_a_queue_has_no_priorities_of_its_own() -> None:
    app = App()
    app.use(Config(broker="memory://levels", queues=(QueueConfig("m@high", priorities=True),)))
    with pytest.raises(ConfigError, match=r"\[queue:m@high\] priorities: m@high is a level of queue m already"):
        app.runner.plan()
