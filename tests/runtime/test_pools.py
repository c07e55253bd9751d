"""Pools of several queues in a whole daemon, on a real server."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis as redis_py
from apps import fields, in_progress, own_app, queue, started, working
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.runtime.fetching import fetcher
from goworkers_py.runtime.fetching.pool_fetcher import PoolFetcher
from goworkers_py.wire.message import Message

QUEUES = ("critical", "default", "low")


@contextmanager
def app_of(redis_url: str, concurrency: int = 2, weights: tuple[int, ...] = (), **of_pool: int | None) -> Iterator[App]:
    pool = PoolConfig("web", QUEUES, weights=weights, concurrency=concurrency, **of_pool)  # type: ignore[arg-type]
    with own_app(redis_url, *map(QueueConfig, QUEUES), timeout=20) as app:
        app.use(dataclasses.replace(app.config, pools=(pool,)))
        yield app


def names(payloads: list[bytes]) -> list[str]:
    return [args[0] for args in fields(payloads, "args")]


def test_a_daemon_says_which_queues_share_its_threads(redis_url: str) -> None:
    with app_of(redis_url) as app:
        launcher = app.runner.launcher()
        told = "is processing pool web: critical, default, low in strict order (2 threads)"
        assert str(launcher) == f"{launcher.identity} {told}"
    with app_of(redis_url, weights=(6, 3, 1)) as app:
        assert "pool web: critical 6, default 3, low 1 by weight (2 threads)" in str(app.runner.launcher())


def test_in_strict_order_waiting_jobs_of_a_higher_queue_run_before_those_of_a_lower_one(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # When the machine pauses, jobs go back, and it may take longer for that than the fetcher waits.
    monkeypatch.setattr(fetcher, "LONGEST_RETURN_S", 30.0)
    ran: list[str] = []
    with app_of(redis_url, concurrency=1) as app:
        for name in QUEUES:
            app.registry.handle(name, lambda message: ran.append(message.queue))
        for name in reversed(QUEUES):
            app.enqueue_bulk(name, "J", [[number] for number in range(50)])
        with working(app):
            assert eventually(lambda: len(ran) == 150)
    assert ran == ["critical"] * 50 + ["default"] * 50 + ["low"] * 50


def test_by_weights_short_jobs_begin_in_shares_all_the_time(redis_url: str) -> None:
    ran: list[str] = []
    with app_of(redis_url, concurrency=1, weights=(6, 3, 1)) as app:
        for name in QUEUES:
            app.registry.handle(name, lambda message: ran.append(message.queue))
        for name in QUEUES:
            app.enqueue_bulk(name, "J", [[number] for number in range(1_000)])
        with working(app):
            assert eventually(lambda: len(ran) == 3_000)
    for start in range(0, 1_500, 50):
        begun = Counter(ran[start : start + 50])
        assert all(abs(begun[name] - share) <= 4 for name, share in zip(QUEUES, (30, 15, 5), strict=True)), begun


def test_a_higher_job_runs_next_whatever_lower_jobs_were_fetched_before(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PoolFetcher, "room_wait_s", 60)  # after which overtaken jobs go back
    gate, ran = threading.Semaphore(0), []

    def run(message: Message) -> None:
        assert gate.acquire(timeout=30)
        ran.append(message.args[0])

    with app_of(redis_url, concurrency=1, prefetch=5) as app:
        for name in QUEUES:
            app.registry.handle(name, run)
        app.enqueue_bulk("low", "J", [[f"l{number}"] for number in range(20)])
        with started(app) as launcher:
            [manager] = launcher.managers
            buffer = manager._pool.buffer
            assert eventually(lambda: len(manager.running) == 1 and len(buffer) == 5)
            app.enqueue("default", "J", ["d"])
            assert eventually(lambda: len(buffer) == 6)
            app.enqueue("critical", "J", ["c"])
            assert eventually(lambda: redis.llen("queue:low") == 14 + 2), "two were overtaken by two"
            assert len(buffer) == 5
            gate.release(22)
            assert eventually(lambda: len(ran) == 22)
    assert ran == ["l0", "c", "d", *(f"l{number}" for number in range(1, 20))]


@pytest.mark.parametrize("weights", [(), (6, 3, 1)])
def test_every_job_runs_once_while_jobs_come_and_queues_are_paused(
    redis_url: str, redis: redis_py.Redis, weights: tuple[int, ...]
) -> None:
    ran: Counter[str] = Counter()
    with app_of(redis_url, concurrency=4, weights=weights) as app:
        for name in QUEUES:
            app.registry.handle(name, lambda message: ran.update([message.args[0]]))
        with started(app) as launcher:
            [manager] = launcher.managers
            for number in range(600):
                app.enqueue(QUEUES[number % 3], "J", [str(number)])
                if number % 20 == 0:
                    manager.set_paused(QUEUES[number // 20 % 3], number // 60 % 2 == 0)
            for name in QUEUES:
                manager.set_paused(name, False)
            assert eventually(lambda: len(ran) == 600)
            assert eventually(lambda: not in_progress(redis))
    assert set(ran.values()) == {1}
    assert redis.get("stat:processed") == b"600"
    assert not redis.exists("retry", "dead", *(f"queue:{name}" for name in QUEUES))


def test_a_paused_queue_of_a_pool_keeps_its_jobs_while_the_others_run(redis_url: str, redis: redis_py.Redis) -> None:
    ran: list[str] = []
    with app_of(redis_url) as app:
        for name in QUEUES:
            app.registry.handle(name, lambda message: ran.append(message.queue))
        with working(app):
            app.inspector.pause("default")
            assert eventually(
                lambda: bool(app.runner.in_background and app.runner.in_background.main.managers[0].fetcher._paused)
            )
            for name in QUEUES:
                app.enqueue(name, "J", [name])
            assert eventually(lambda: sorted(ran) == ["critical", "low"])
            # A wait that began before the pause may have taken the job, which goes back.
            assert eventually(lambda: names(queue(redis, "default")) == ["default"])
            app.inspector.resume("default")
            assert eventually(lambda: ran[2:] == ["default"])


def test_a_pause_gives_back_the_fetched_jobs_of_its_queue_only(redis_url: str, redis: redis_py.Redis) -> None:
    gate = threading.Event()
    with app_of(redis_url, concurrency=1, prefetch=4) as app:
        for name in QUEUES:
            app.registry.handle(name, lambda message: gate.wait(30))
            app.enqueue_bulk(name, "J", [[f"{name}{number}"] for number in range(2)])
        with started(app) as launcher:
            [manager] = launcher.managers
            assert eventually(lambda: [manager.waiting(name) for name in QUEUES] == [1, 2, 1])
            assert len(manager.running) == 1
            others = manager._pool.unsettled.of_queue("critical")
            manager.set_paused("default", True)
            # A fetch that was on its way may take one once more, and gives it back.
            assert eventually(lambda: names(queue(redis, "default")) == ["default0", "default1"])
            assert manager._pool.unsettled.of_queue("critical") == others, "given back and fetched again"
            assert (manager.waiting("critical"), manager.waiting("default")) == (1, 0)
            assert not redis.exists("queue:critical")
            gate.set()


def test_each_queue_of_a_pool_has_its_own_links_and_figures(redis_url: str) -> None:
    seen: list[tuple[str, str]] = []

    class Seeing:
        def __init__(self, name: str) -> None:
            self.name = name

        def call(self, queue: str, message: Message, call_next: Callable[[], bool]) -> bool:
            seen.append((self.name, queue))
            return bool(call_next())

    def run(message: Message) -> None:
        if message.queue == "low":
            raise ValueError("oh")

    with app_of(redis_url) as app:
        for name in QUEUES:
            app.process(name, run, 1, Seeing(name))
        with started(app) as launcher:
            for name in QUEUES:
                app.enqueue(name, "J", [1])
            assert eventually(lambda: launcher.processed == 3)
            told = launcher.health.report()
            assert {name: len(rows) for name, rows in told["jobs"].items()} == dict.fromkeys(QUEUES, 1)
            assert told["pools"] == {"web": {"capacity": 2, "stuck": 0}}
            assert set(told["queues"]) == set(QUEUES)
    assert sorted(seen) == [(name, name) for name in QUEUES]


def test_running_and_fetched_jobs_of_a_pool_are_told_by_queue(redis_url: str, redis: redis_py.Redis) -> None:
    gate = threading.Event()
    with app_of(redis_url, concurrency=2, prefetch=3) as app:
        for name in QUEUES:
            app.registry.handle(name, lambda message: gate.wait(30))
        app.enqueue_bulk("critical", "J", [[1]])
        app.enqueue_bulk("default", "J", [[1]] * 3)
        app.enqueue_bulk("low", "J", [[1]] * 5)
        with started(app) as launcher:
            assert eventually(lambda: len(launcher.health.running) == 2)
            assert eventually(lambda: redis.llen("queue:low") == 4)

            def told() -> dict[str, tuple[int, int]]:
                return {name: (row["busy"], row["waiting"]) for name, row in launcher.health.report()["queues"].items()}

            # A worker shows its job as running just before it counts as begun.
            assert eventually(lambda: told() == {"critical": (1, 0), "default": (1, 2), "low": (0, 1)}), told()
            assert eventually(app.inspector.processes)  # the heartbeat's thread shows the process
            [process] = app.inspector.processes()
            assert (process.concurrency, process.queues) == (2, [*QUEUES])
            presence = launcher._reporter.presence("me", "")
            assert set(presence.queues) == set(QUEUES)
            assert min(presence.queues.values()) >= 2, "any of them may have begun in all threads"
            gate.set()


def test_a_stop_gives_every_job_back_to_its_queue_in_order(redis_url: str, redis: redis_py.Redis) -> None:
    gate, began = threading.Event(), []

    def run(message: Message) -> None:
        began.append(message.args[0])
        gate.wait(30)

    with app_of(redis_url, concurrency=1, prefetch=6) as app:
        for name in QUEUES:
            app.registry.handle(name, run)
        for name in QUEUES:
            app.enqueue_bulk(name, "J", [[f"{name}{number}"] for number in range(4)])
        launcher = app.runner.launcher()
        launcher.start(threading.Event())
        assert eventually(lambda: len(began) == 1 and redis.llen("queue:default") == 1)
        stopping = threading.Thread(target=launcher.stop)
        stopping.start()
        assert eventually(lambda: redis.llen("queue:critical") == 3), "what was not begun goes back first"
        gate.set()
        stopping.join()
    assert began == ["critical0"]
    assert names(queue(redis, "critical")) == [f"critical{number}" for number in (1, 2, 3)]
    for name in ("default", "low"):
        assert names(queue(redis, name)) == [f"{name}{number}" for number in range(4)]
    assert not in_progress(redis)


def test_a_stop_of_idle_threads_leaves_no_wait_that_takes_a_job(redis_url: str, redis: redis_py.Redis) -> None:
    for _ in range(10):
        with app_of(redis_url) as app:
            for name in QUEUES:
                app.registry.handle(name, lambda message: None)
            with working(app):
                pass
            for name in QUEUES:
                app.enqueue(name, "J", [name])
                assert names(queue(redis, name)) == [name]
        assert not in_progress(redis)
        redis.flushdb()
