"""Queues in serial mode, in a whole daemon, on a real server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from apps import fields, in_progress, own_app, queue, started, working
from daemon import Daemon
from servers import RedisServer
from waiting import eventually

from goworkers_py import Message, TimeLimitExceeded
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.delivery import Delivery
from goworkers_py.runtime.settling.serial_settler import SerialSettler
from goworkers_py.runtime.settling.settlement import Settlement


@contextmanager
def serial_app(redis_url: str, prefetch: int | None = None, **options: object) -> Iterator[App]:
    with own_app(redis_url, QueueConfig("q", mode="serial", prefetch=prefetch), **options) as app:
        yield app


def numbers(payloads: list[bytes]) -> list[int]:
    return [args[0] for args in fields(payloads, "args")]


def test_one_thread_runs_all_jobs_in_order_and_settles_them(redis_url: str, redis: redis_py.Redis) -> None:
    ran: list[tuple[int, str]] = []
    with serial_app(redis_url) as app:
        app.registry.handle("q", lambda message: ran.append((message.args[0], threading.current_thread().name)))
        app.enqueue_bulk("q", "J", [[number] for number in range(2_000)])
        with started(app) as launcher:
            assert "q (1 threads)" in str(launcher)
            assert eventually(lambda: len(ran) == 2_000 and not in_progress(redis))
            assert launcher.workers_alive == 1
            assert launcher.processed == 2_000
        assert redis.get("stat:processed") == b"2000"
    assert [number for number, _ in ran] == list(range(2_000))
    assert {name for _, name in ran} == {"worker:q:1"}


def test_a_job_that_has_ended_is_settled_and_those_behind_go_back_while_the_next_one_runs_for_long(
    redis_url: str, redis: redis_py.Redis
) -> None:
    gate, ran = threading.Semaphore(0), []

    def run(message: Message) -> None:
        ran.append(message.args[0])
        if message.args[0] == 3:
            assert gate.acquire(timeout=30)

    with serial_app(redis_url, prefetch=10) as app:
        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[number] for number in range(8)])
        with working(app):
            assert eventually(lambda: numbers(in_progress(redis)) == [3])
            assert numbers(queue(redis)) == [4, 5, 6, 7]
            gate.release()
            assert eventually(lambda: ran == list(range(8)))
            assert eventually(lambda: not in_progress(redis) and not queue(redis))


def test_no_job_overtakes_those_that_go_back_however_long_that_takes(
    redis_url: str, redis: redis_py.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_back, ran, give_back = threading.Event(), list[int](), Settlement.give_back

    def slowly(settlement: Settlement, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            going_back.set()
            time.sleep(0.3)
        give_back(settlement, deliveries)

    def run(message: Message) -> None:
        if message.args[0] == 0:
            assert going_back.wait(20)
        ran.append(message.args[0])

    monkeypatch.setattr(Settlement, "give_back", slowly)
    with serial_app(redis_url, prefetch=4) as app:
        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[number] for number in range(12)])
        with working(app):
            assert eventually(lambda: len(ran) == 12)
    assert ran == list(range(12))


def test_a_job_is_settled_when_it_ends_not_with_the_next_one(redis_url: str, redis: redis_py.Redis) -> None:
    gates = [threading.Semaphore(0), threading.Semaphore(0)]
    begun: list[int] = []

    def run(message: Message) -> None:
        begun.append(message.args[0])
        assert gates[message.args[0]].acquire(timeout=30)

    with serial_app(redis_url) as app:
        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[0], [1]])
        with working(app):
            assert eventually(lambda: begun == [0])
            gates[0].release()
            assert eventually(lambda: begun == [0, 1])
            assert numbers(in_progress(redis)) == [1]
            gates[1].release()
            assert eventually(lambda: not in_progress(redis))


def test_a_stop_waits_for_the_running_job_and_gives_the_others_back_in_order(
    redis_url: str, redis: redis_py.Redis
) -> None:
    gate, ran = threading.Semaphore(0), []

    def run(message: Message) -> None:
        ran.append(message.args[0])
        assert gate.acquire(timeout=30)

    with serial_app(redis_url, prefetch=5, timeout=20) as app:
        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[number] for number in range(6)])
        app.start()
        assert eventually(lambda: ran == [0])
        ending = threading.Thread(target=app.quit)
        ending.start()
        assert eventually(lambda: numbers(queue(redis)) == [1, 2, 3, 4, 5])
        assert numbers(in_progress(redis)) == [0]
        gate.release()
        ending.join(20)
        assert not ending.is_alive()
    assert ran == [0]
    assert numbers(queue(redis)) == [1, 2, 3, 4, 5]
    assert not in_progress(redis)


def test_a_job_that_does_not_end_before_the_deadline_of_a_stop_goes_back(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    gate, ran = threading.Semaphore(0), []

    def run(message: Message) -> None:
        ran.append(message.args[0])
        gate.acquire(timeout=30)

    with serial_app(redis_url, timeout=0.2) as app:
        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[0], [1]])
        app.start()
        assert eventually(lambda: ran == [0])
        app.quit()
        assert numbers(queue(redis)) == [0, 1]
        assert "not finished in time, requeued" in caplog.text
        gate.release()
        assert eventually(lambda: not [one for one in threading.enumerate() if one.name == "worker:q:1"])
    assert not in_progress(redis)


def test_a_failed_job_waits_for_its_retry_and_does_not_hold_up_the_others(
    redis_url: str, redis: redis_py.Redis
) -> None:
    ran: list[int] = []

    def run(message: Message) -> None:
        ran.append(message.args[0])
        if message.args[0] == 1:
            raise ValueError("one")

    with serial_app(redis_url) as app:
        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[0], [1], [2]])
        with working(app):
            assert eventually(lambda: ran == [0, 1, 2] and not in_progress(redis))
    assert numbers(list(redis.zrange("retry", 0, -1))) == [1]


def test_a_paused_queue_runs_nothing_until_it_is_resumed(redis_url: str, redis: redis_py.Redis) -> None:
    ran: list[int] = []
    with serial_app(redis_url) as app:
        app.registry.handle("q", lambda message: ran.append(message.args[0]))
        with started(app) as launcher:
            app.inspector.pause("q")
            assert eventually(lambda: bool(launcher.managers[0].fetcher._paused))
            app.enqueue("q", "J", [1])
            assert not eventually(lambda: ran, within_s=0.3)
            app.inspector.resume("q")
            assert eventually(lambda: ran == [1])


def test_quiet_fetches_nothing_more_and_the_running_job_ends(redis_url: str, redis: redis_py.Redis) -> None:
    gate, ran = threading.Semaphore(0), []

    def run(message: Message) -> None:
        ran.append(message.args[0])
        assert gate.acquire(timeout=30)

    with serial_app(redis_url) as app:
        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[0], [1]])
        with started(app) as launcher:
            assert eventually(lambda: ran == [0])
            launcher.quiet()
            gate.release()
            assert eventually(lambda: not in_progress(redis))
            assert numbers(queue(redis)) == [1]


def test_a_time_limit_interrupts_a_job_and_the_next_one_runs_in_the_same_thread(
    redis_url: str, redis: redis_py.Redis
) -> None:
    ended: list[tuple[str, int]] = []
    with serial_app(redis_url) as app:

        @app.job("Slow", queue="q", timeout=1.0, retry=False)  # it must be in its `try` by then
        def slow() -> None:
            try:
                while True:
                    time.sleep(0.01)
            except TimeLimitExceeded:
                ended.append(("slow", threading.get_ident()))
                raise

        @app.job("Quick", queue="q")
        def quick() -> None:
            ended.append(("quick", threading.get_ident()))

        slow.enqueue()
        quick.enqueue()
        with working(app):
            assert eventually(lambda: len(ended) == 2 and not in_progress(redis))
    assert [name for name, _ in ended] == ["slow", "quick"]
    assert len({thread for _, thread in ended}) == 1


def test_no_second_thread_runs_jobs_beside_one_that_is_stuck(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    gate, ran = threading.Event(), []
    with serial_app(redis_url, stuck_grace=0.1) as app:

        @app.job("Stuck", queue="q", timeout=0.1, interrupt=False)
        def stuck() -> None:
            gate.wait(30)

        @app.job("Next", queue="q")
        def next_one() -> None:
            ran.append(1)

        stuck.enqueue()
        next_one.enqueue()
        with working(app):
            assert eventually(lambda: "queue q is in serial mode, so no other job runs here" in caplog.text)
            assert not ran
            gate.set()
            assert eventually(lambda: ran == [1] and not in_progress(redis))


def test_a_job_that_runs_is_cancelled(redis_url: str, redis: redis_py.Redis) -> None:
    began = threading.Event()
    with serial_app(redis_url) as app:

        @app.job("Endless", queue="q")
        def endless() -> None:
            began.set()
            while True:
                time.sleep(0.01)

        jid = endless.enqueue()
        assert jid is not None
        with working(app):
            assert began.wait(20)
            assert app.cancel(jid, timeout=20) == "cancelled"
            assert eventually(lambda: not in_progress(redis))


def test_an_outage_of_the_server_loses_no_job_and_runs_none_twice(own_redis: RedisServer) -> None:
    ran, killed = list[int](), threading.Event()
    with serial_app(own_redis.url) as app:

        def run(message: Message) -> None:
            ran.append(message.args[0])
            if message.args[0] == 50:
                own_redis.kill()
                killed.set()

        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[number] for number in range(200)])
        with working(app):
            assert killed.wait(20)
            own_redis.start()
            assert eventually(lambda: len(ran) == 200 and not in_progress(own_redis.client()))
    assert ran == list(range(200))


@pytest.mark.parametrize("waits", ["for the outage to end", "for a job to end"])
def test_no_thread_of_a_serial_queue_outlives_a_stop_in_an_outage(own_redis: RedisServer, waits: str) -> None:
    """In a program that lives on: the jobs are for others to recover."""
    begun, gate = threading.Event(), threading.Event()

    def run(message: Message) -> None:
        if message.args[0] == 2:
            own_redis.kill()
            begun.set()
            gate.wait(30)

    with serial_app(own_redis.url, prefetch=5, timeout=0.2) as app:
        app.registry.handle("q", run)
        app.enqueue_bulk("q", "J", [[number] for number in range(4)])
        with started(app) as launcher:
            assert begun.wait(20)
            if waits == "for the outage to end":
                gate.set()
            assert eventually(lambda: launcher.health.report()["counts"].get("settle_retries", 0) >= 1)
            launcher.after_jobs_s = 0.5
            assert not launcher.stop()
            assert eventually(lambda: "settler:q" not in {thread.name for thread in threading.enumerate()}, within_s=3)
            gate.set()  # its job ends after all, and what it put is left to others
            assert eventually(lambda: "worker:q:1" not in {thread.name for thread in threading.enumerate()}, within_s=3)


def test_a_killed_process_leaves_its_jobs_to_the_next_one(
    tmp_path: Path, redis_url: str, redis: redis_py.Redis
) -> None:
    (tmp_path / "serial.ini").write_text("[queue:q]\nmode = serial\nprefetch = 5\n")
    jobs = """
        import time
        import goworkers_py as workers

        @workers.job("Wait", queue="q")
        def wait(number, seconds):
            print("ran", number, flush=True)
            time.sleep(seconds)
    """
    for number in range(4):
        args = [number, 30 if number == 0 else 0]
        redis.lpush("queue:q", json.dumps({"class": "Wait", "args": args, "jid": str(number), "queue": "q"}))
    with Daemon(tmp_path, redis_url, jobs, "-c", "serial.ini") as daemon:
        daemon.says("ran 0")
        daemon.kill()
    with serial_app(redis_url) as app:
        ran: list[int] = []
        app.registry.handle("q", lambda message: ran.append(message.args[0]))
        with working(app):
            assert eventually(lambda: sorted(ran) == [0, 1, 2, 3] and not in_progress(redis))


def test_serial_mode_works_without_a_server(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[int] = []
    with own_app("memory://", QueueConfig("q", mode="serial")) as app:
        app.registry.handle("q", lambda message: ran.append(message.args[0]))
        with working(app):
            app.enqueue_bulk("q", "J", [[number] for number in range(500)])
            assert eventually(lambda: len(ran) == 500)
    assert ran == list(range(500))


def test_levels_of_a_serial_queue_run_in_the_one_thread_the_most_important_first(redis_url: str) -> None:
    ran: list[tuple[str, int]] = []
    with own_app(redis_url, QueueConfig("q", mode="serial", priorities=True)) as app:
        app.registry.handle("q", lambda message: ran.append((message.queue, threading.get_ident())))
        for level in ("q@low", "q", "q@high"):
            app.enqueue_bulk(level, "J", [[number] for number in range(20)])
        with working(app):
            assert eventually(lambda: len(ran) == 60)
    assert [level for level, _ in ran] == ["q@high"] * 20 + ["q"] * 20 + ["q@low"] * 20
    assert len({thread for _, thread in ran}) == 1


def test_the_settlers_thread_sleeps_while_there_is_nothing_to_watch(redis_url: str, redis: redis_py.Redis) -> None:
    with serial_app(redis_url) as app:
        app.registry.handle("q", lambda message: None)
        with started(app) as launcher:
            app.enqueue_bulk("q", "J", [[number] for number in range(300)])
            settler = launcher.managers[0]._settler
            assert isinstance(settler, SerialSettler)
            assert eventually(lambda: not redis.llen("queue:q") and not in_progress(redis))
            assert eventually(lambda: not settler._watching.is_set())


def test_a_job_that_runs_for_long_does_not_make_the_process_look_dead(redis_url: str) -> None:
    gate, began = threading.Event(), threading.Event()

    def run(message: Message) -> None:
        began.set()
        gate.wait(30)

    with serial_app(redis_url) as app:
        app.registry.handle("q", run)
        app.enqueue("q", "J", [1])
        with started(app) as launcher:
            assert began.wait(20)
            assert [loop.still_s for loop in (launcher.managers[0].fetches,)] == [0.0]
            assert launcher.health.trouble() == ""
            gate.set()
