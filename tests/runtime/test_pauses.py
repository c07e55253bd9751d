"""A paused queue is left alone by every process, at once and until it is resumed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py
from apps import fields, in_progress, job, own_app, queue, started, working
from daemon import Daemon
from servers import RedisServer
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.runtime.fetching import fetcher
from goworkers_py.runtime.fetching.pauses import LOOK_EVERY_S, Pauses
from goworkers_py.runtime.launcher import Launcher

# Twice a second each process asks which queues are paused. A busy machine may keep it from that for some seconds.
SOON_S = 15.0


def knows(launcher: Launcher, *paused: str) -> bool:
    """Waits until the process leaves these queues alone, and no others."""
    return eventually(lambda: launcher._services.pauses._paused == set(paused))


class Gate:
    """A job that runs until the gate opens."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.opened = threading.Event()

    def run(self, number: int) -> None:
        self.began.append(number)
        self.opened.wait(30)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


def app_with(app: App, gate: Gate) -> App:
    app.job("J", retry=False)(gate.run)
    return app


def push(redis: redis_py.Redis, *numbers: int, name: str = "q") -> None:
    redis.lpush(f"queue:{name}", *(job("J", number) for number in numbers))


def test_a_paused_queue_is_not_fetched_from_and_the_others_are(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url, QueueConfig("q", 2), QueueConfig("other", 2)) as app:
        ran: list[int] = []
        app.job("J")(ran.append)
        with started(app) as launcher:
            redis.sadd("paused", "q", "somebody's")
            assert knows(launcher, "q")
            push(redis, 1, 2)
            push(redis, 3, name="other")
            assert eventually(lambda: ran == [3])
            time.sleep(0.3)
            # A wait that began before the pause may have taken a job, which goes back.
            assert eventually(lambda: fields(queue(redis), "args") == [[1], [2]])
            assert ran == [3]
            redis.srem("paused", "q")
            assert eventually(lambda: sorted(ran) == [1, 2, 3], within_s=SOON_S)
    assert LOOK_EVERY_S <= 0.5


def test_nothing_is_fetched_at_the_start_from_a_queue_that_is_paused(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pauses, "start", lambda pauses: None)  # not even before its thread looks for the first time
    redis.sadd("paused", "q")
    push(redis, 1)
    with own_app(redis_url, QueueConfig("q", 2)) as app:
        ran: list[int] = []
        app.job("J")(ran.append)
        with working(app):
            time.sleep(0.5)
            assert (ran, in_progress(redis)) == ([], [])


def test_what_was_fetched_ahead_goes_back_in_order_and_what_runs_runs_on(
    redis_url: str, redis: redis_py.Redis, gate: Gate
) -> None:
    with own_app(redis_url, QueueConfig("q", 1, prefetch=3)) as app, started(app_with(app, gate)) as launcher:
        push(redis, 1, 2, 3, 4, 5, 6)
        assert eventually(lambda: gate.began == [1] and len(in_progress(redis)) == 4)
        redis.sadd("paused", "q")
        assert eventually(lambda: len(in_progress(redis)) == 1, within_s=SOON_S)
        assert fields(queue(redis), "args") == [[2], [3], [4], [5], [6]]
        gate.opened.set()
        assert eventually(lambda: not in_progress(redis))
        assert gate.began == [1]
        redis.srem("paused", "q")
        assert eventually(lambda: gate.began == [1, 2, 3, 4, 5, 6])
        assert launcher.stop()


def test_a_fetch_that_waits_on_the_server_is_ended_by_a_pause(redis_url: str, redis: redis_py.Redis) -> None:
    """Or else it would take the first job that is pushed afterwards."""
    with own_app(redis_url, QueueConfig("q", 1)) as app:
        app.broker.transport.block_s = 60
        with working(app):
            assert eventually(lambda: redis.info("clients")["blocked_clients"] == 1)
            redis.sadd("paused", "q")
            assert eventually(lambda: redis.info("clients")["blocked_clients"] == 0, within_s=SOON_S)
            time.sleep(0.2)
            assert redis.info("clients")["blocked_clients"] == 0


def test_a_process_stops_while_its_queue_is_paused(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "PAUSED_LOOK_S", 30.0)  # the stop ends this sleep
    redis.sadd("paused", "q")
    with own_app(redis_url, QueueConfig("q", 1), timeout=30) as app, started(app) as launcher:
        time.sleep(0.2)
        before = time.monotonic()
        assert launcher.stop()
        assert time.monotonic() - before < 20


def test_an_outage_resumes_nothing(own_redis: RedisServer, tmp_path: Path) -> None:
    jobs = """
        import goworkers_py as workers

        @workers.job("J")
        def run(number):
            print("ran", number, flush=True)
    """
    client = own_redis.client()
    client.sadd("paused", "q")
    with Daemon(tmp_path, own_redis.url, jobs, "-q", "q", "-q", "other").ready() as daemon:
        push(client, 1)
        own_redis.restart()
        daemon.says("Redis serves again")
        push(client, 2, name="other")
        daemon.says("ran 2")
        assert client.llen("queue:q") == 1
        # Also a server that has lost the set unpauses only by its answer.
        client.delete("paused")
        daemon.says("queue q: resumed")
        daemon.says("ran 1")
        assert daemon.stop() == 0


def test_a_set_that_cannot_be_read_leaves_the_queues_as_they_are(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url, QueueConfig("q", 1)) as app:
        ran: list[int] = []
        app.job("J")(ran.append)
        with started(app) as launcher:
            redis.sadd("paused", "q")
            assert knows(launcher, "q")
            redis.set("paused", "no set")
            push(redis, 1)
            time.sleep(2 * LOOK_EVERY_S)
            assert ran == []
            redis.delete("paused")
            assert eventually(lambda: ran == [1])
