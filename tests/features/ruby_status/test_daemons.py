"""What the gem sidekiq-status shows in Ruby of jobs that run here. The gem itself is asked in test_interop.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, working
from waiting import eventually

from goworkers_py import EnqueueOptions
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import JobCancelled
from goworkers_py.features.cancelling.service import Canceller
from goworkers_py.features.ruby_status.status import LIFE_S
from goworkers_py.wire.message import current_message

pytestmark = pytest.mark.server


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    with own_app(redis_url, QueueConfig(name="q", concurrency=3)) as app:
        yield app


Shown = Callable[[], dict[str, str]]


@pytest.fixture
def shown(redis: redis_py.Redis) -> Shown:
    def ask() -> dict[str, str]:
        told = redis.hgetall("sidekiq:status:one")
        return {name.decode(): value.decode() for name, value in told.items()}

    return ask


@pytest.fixture
def push(app: App, redis: redis_py.Redis) -> Callable[..., None]:
    def push(**options: Any) -> None:
        """As Ruby with the gem does."""
        redis.hset("sidekiq:status:one", mapping={"jid": "one", "status": "queued", "worker": "J", "args": "[]"})
        redis.expire("sidekiq:status:one", 60)
        app.enqueue_with_options("q", "J", [], EnqueueOptions(jid="one", **options))

    return push


Push = Callable[..., None]


def test_a_job_that_succeeds_is_shown_with_its_progress(
    app: App, push: Push, shown: Shown, redis: redis_py.Redis
) -> None:
    go_on = threading.Event()

    def run() -> None:
        current_message().progress(21, 42, "half")  # type: ignore[union-attr]
        go_on.wait(20)
        current_message().progress(42.5)  # type: ignore[union-attr]

    app.job("J", queue="q", sidekiq_status=True)(run)
    push()
    with redis.pubsub() as channel:
        channel.subscribe("status_updates")
        began = int(time.time())
        with working(app):
            assert eventually(lambda: shown().get("pct_complete") == "50")
            told = shown()
            assert (told["status"], told["at"], told["total"], told["message"]) == ("working", "21", "42", "half")
            assert began <= int(told["working_at"]) <= int(told["update_time"]) <= time.time()
            go_on.set()
            assert eventually(lambda: shown()["status"] == "complete")
        updates = [told["data"] for told in iter(lambda: channel.get_message(timeout=0.1), None)]
    assert set(updates[1:]) == {b"one"}  # the first one is the subscription
    told = shown()
    assert (told["at"], told["total"], told["pct_complete"], told["message"]) == ("42.5", "100", "42", "")
    assert (told["worker"], told["args"], told["jid"]) == ("J", "[]", "one")
    assert app.status("one").state == "completed"


def test_it_is_shown_for_half_an_hour_or_as_long_as_the_gem_has_said(
    app: App, push: Push, shown: Shown, redis: redis_py.Redis
) -> None:
    app.job("J", queue="q", sidekiq_status=True)(lambda: None)
    for before in (60, 2 * LIFE_S):
        push()
        redis.expire("sidekiq:status:one", before)
        with working(app):
            assert eventually(lambda: shown()["status"] == "complete")
        assert max(LIFE_S, before) - 30 <= redis.ttl("sidekiq:status:one") <= max(LIFE_S, before)
        redis.delete("pyworkers:job:one")


def test_a_hash_that_is_gone_is_made_again_as_by_the_gem(
    app: App, push: Push, shown: Shown, redis: redis_py.Redis
) -> None:
    app.job("J", queue="q", sidekiq_status=True)(lambda: None)
    push()
    redis.delete("sidekiq:status:one")
    with working(app):
        assert eventually(lambda: shown().get("status") == "complete")
    assert shown()["jid"] == "one"
    assert 0 < redis.ttl("sidekiq:status:one") <= LIFE_S


@pytest.mark.parametrize(("retry", "word"), [(3, "retrying"), (0, "failed"), (False, "failed")])
def test_a_job_that_fails(app: App, push: Push, shown: Shown, retry: int | bool, word: str) -> None:
    app.job("J", queue="q", sidekiq_status=True)(lambda: 1 / 0)
    push(retry=retry)
    with working(app):
        assert eventually(lambda: shown()["status"] == word)


def test_a_job_that_is_not_begun_is_stopped(app: App, push: Push, shown: Shown) -> None:
    app.job("J", queue="q", sidekiq_status=True)(lambda: None)
    push(expires_at=time.time() - 1)
    with working(app):
        assert eventually(lambda: shown()["status"] == "stopped")


def test_ruby_stops_a_job_that_runs(
    app: App, push: Push, shown: Shown, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Canceller, "compare_every_s", 0.1)
    told, began = [], threading.Event()

    def run() -> None:
        try:
            began.set()  # the exception may strike from here on
            for _ in range(2_000):
                time.sleep(0.01)
        except JobCancelled:
            told.append("interrupted")
            raise

    app.job("J", queue="q", sidekiq_status=True)(run)
    app.on_cancel(lambda message: told.append(message.jid))
    push()
    with working(app):
        assert began.wait(20)
        redis.hset("sidekiq:status:one", "stop", "false")
        time.sleep(0.3)
        assert told == []
        redis.hset("sidekiq:status:one", "stop", "true")
        assert eventually(lambda: shown()["status"] == "stopped")
    assert told == ["interrupted", "one"]


def test_a_job_that_a_stop_cuts_off_is_interrupted(redis_url: str, shown: Shown) -> None:
    began, end = threading.Event(), threading.Event()

    def run() -> None:
        began.set()
        end.wait(20)

    with own_app(redis_url, QueueConfig(name="q"), timeout=0.1) as app:
        app.job("J", queue="q", sidekiq_status=True, interrupt=False)(run)
        app.enqueue_with_options("q", "J", [], EnqueueOptions(jid="one"))
        with working(app):
            assert began.wait(20)
        assert shown()["status"] == "interrupted"
        end.set()


def test_a_job_without_the_option_leaves_the_hash_alone(
    app: App, push: Push, shown: Shown, redis: redis_py.Redis
) -> None:
    app.job("J", queue="q", track=True)(lambda: None)
    push()
    with working(app):
        assert eventually(lambda: app.status("one").state == "completed")
    assert shown()["status"] == "queued"
    assert redis.ttl("sidekiq:status:one") <= 60


def test_a_key_of_another_type_keeps_no_job_from_its_end(app: App, push: Push, redis: redis_py.Redis) -> None:
    app.job("J", queue="q", sidekiq_status=True)(lambda: None)
    push()
    redis.set("sidekiq:status:one", "damaged")
    with working(app):
        assert eventually(lambda: app.status("one").state == "completed")
    assert redis.get("sidekiq:status:one") == b"damaged"
    assert not redis.exists("queue:q")
