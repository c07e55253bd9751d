from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import fields, in_progress, job, own_app, queue, started, working
from daemon import Daemon
from gates import gated
from waiting import eventually

from goworkers_py.config.job_options import CodeOptions
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.clock import Clock, Deadline
from goworkers_py.core.errors import KillJob, TimeLimitExceeded
from goworkers_py.core.machine import awake_and_asleep
from goworkers_py.core.outcome import DONE, Outcome
from goworkers_py.links.time_limit import Watched, time_limit
from goworkers_py.policy.registry import JobSpec, Registry
from goworkers_py.runtime.running.watchdog import Watchdog
from goworkers_py.wire.message import Message, current_message, reset_current, set_current

pytestmark = pytest.mark.usefixtures("untraced")

LONG_S = 30.0  # more than any of these tests takes


def spin(seconds: float = LONG_S) -> None:
    """Python code that can be interrupted at any of its instructions."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


class Link:
    """The watchdog's link around any function, as a worker would call it."""

    def __init__(self, grace_s: float = LONG_S) -> None:
        self.registry = Registry()
        self.stuck: list[tuple[str, int]] = []
        self.clock = Clock()
        self.watchdog = Watchdog(grace_s, self._note, lambda: None)

    def _note(self, run: Watched, count: int) -> None:
        self.stuck.append((run.message.jid, count))

    def run(self, function: Callable[[], Any], **told: Any) -> Outcome:
        def inner(message: Message) -> Outcome:
            function()
            return DONE

        message = Message(job(**told), "q")
        token = set_current(message)
        try:
            return time_limit(self.registry, self.clock, self.watchdog)(inner)(message)
        finally:
            reset_current(token)


@contextmanager
def watching(grace_s: float = LONG_S) -> Iterator[Link]:
    link = Link(grace_s)
    link.watchdog.start()
    try:
        yield link
    finally:
        link.watchdog.stop()
        assert link.watchdog.join(Deadline(20))


@pytest.fixture
def link() -> Iterator[Link]:
    with watching() as link:
        yield link


# --- limits


def test_a_job_that_runs_longer_than_its_timeout_is_interrupted(link: Link) -> None:
    with pytest.raises(TimeLimitExceeded, match=r"^ran longer than its 0\.05 s$"):
        link.run(spin, timeout=0.05)


def test_a_job_within_its_timeout_is_left_alone(link: Link) -> None:
    assert link.run(lambda: spin(0.05), timeout=LONG_S) is DONE


def test_the_timeout_of_the_code_holds_where_the_payload_has_none(link: Link) -> None:
    link.registry.add(JobSpec("J", spin, options=CodeOptions(timeout=0.05)))
    with pytest.raises(TimeLimitExceeded, match=r"its 0\.05 s"):
        link.run(spin)
    assert link.run(lambda: spin(0.2), timeout=LONG_S) is DONE


def test_a_job_that_is_not_over_at_its_deadline_is_interrupted(link: Link) -> None:
    with pytest.raises(TimeLimitExceeded, match="ran past its deadline"):
        link.run(spin, deadline=time.time() + 1.0, timeout=LONG_S)  # a busy machine may begin it late


def test_the_nearer_limit_counts(link: Link) -> None:
    with pytest.raises(TimeLimitExceeded, match=r"its 0\.05 s"):
        link.run(spin, deadline=time.time() + LONG_S, timeout=0.05)


@pytest.mark.parametrize("scale", [1, 1_000], ids=["seconds", "milliseconds"])
def test_a_job_whose_deadline_has_passed_is_not_begun(link: Link, scale: int) -> None:
    with pytest.raises(KillJob, match=r"^its deadline passed 6\d s before it could run$"):
        link.run(lambda: pytest.fail("begun"), deadline=int((time.time() - 60) * scale))


def test_a_deadline_is_meant_by_the_servers_clock(link: Link) -> None:
    now = awake_and_asleep()
    link.clock.synchronize(time.time() + 600, now, now)  # this machine's clock is slow
    with pytest.raises(KillJob):
        link.run(lambda: pytest.fail("begun"), deadline=time.time() + 60)


@pytest.mark.parametrize("limit", ["soon", None, True, 0, -1, 1e10, [1], 10**400], ids=lambda limit: str(limit)[:5])
def test_what_is_no_number_of_seconds_is_no_limit(link: Link, limit: Any) -> None:
    assert link.run(lambda: spin(0.05), timeout=limit) is DONE


def test_a_job_that_failed_by_itself_keeps_its_own_error(link: Link) -> None:
    with pytest.raises(ZeroDivisionError):
        link.run(lambda: 1 // 0, timeout=LONG_S)
    with pytest.raises(TimeLimitExceeded, match="mine"):
        link.run(lambda: (_ for _ in ()).throw(TimeLimitExceeded("mine")), timeout=LONG_S)


def test_nothing_is_kept_of_runs_that_are_over(link: Link) -> None:
    for _ in range(100):
        link.run(lambda: None, timeout=3_600)
    assert not link.watchdog._running


# --- the word to the job


def test_a_job_is_told_and_not_interrupted_where_that_is_switched_off(link: Link) -> None:
    link.registry.add(JobSpec("J", spin, options=CodeOptions(timeout=0.05, interrupt=False)))

    def polite() -> None:
        message = current_message()
        assert message is not None
        while not message.expired:
            time.sleep(0.001)
        spin(0.05)

    assert link.run(polite) is DONE


def test_a_job_may_catch_the_exception_and_end_well(link: Link) -> None:
    def careful() -> None:  # it must be in its `try` by the time limit
        try:
            spin()
        except TimeLimitExceeded:
            message = current_message()
            assert message is not None
            assert message.expired

    assert link.run(careful, timeout=0.5) is DONE


def test_a_job_is_not_expired_before_its_limit(link: Link) -> None:
    def look() -> None:
        message = current_message()
        assert message is not None
        assert not message.expired

    assert link.run(look, timeout=LONG_S) is DONE


@pytest.mark.slow
def test_a_limit_never_hits_the_next_job(link: Link) -> None:
    """Many short jobs that end at about their limit, and after each a job without one."""
    begun = ended = missed = 0
    until = time.monotonic() + 6
    while time.monotonic() < until:
        begun += 1
        try:
            link.run(lambda: spin(0.001), timeout=0.001)
            ended += 1
        except TimeLimitExceeded:
            missed += 1
        link.run(lambda: spin(0.0002))  # would raise what was meant for the one before
    assert begun == ended + missed
    assert ended > 20
    assert missed > 20
    assert not link.watchdog._running


# --- in a daemon


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    """With the stacks."""
    stuck = [record for record in caplog.records if record.getMessage().startswith("stuck: ")]
    return [f"{record.getMessage()}\n{record.stack_info}\n" for record in stuck]


def test_a_job_over_its_limit_has_failed_and_its_worker_runs_the_next(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url) as app:

        @app.job(queue="q", timeout=0.1)
        def slow(seconds: float) -> None:
            spin(seconds)

        with working(app):
            slow.enqueue(LONG_S)
            slow.set(timeout=LONG_S).enqueue(0)  # a busy machine may keep it longer than 0.1 s
            assert eventually(lambda: redis.get("stat:processed") == b"2")
    [entry] = map(json.loads, redis.zrange("retry", 0, -1))
    assert entry["error_class"] == "goworkers_py.TimeLimitExceeded"
    assert entry["error_message"] == "ran longer than its 0.1 s"
    assert redis.get("stat:failed") == b"1"


def test_a_job_whose_deadline_passed_in_the_queue_goes_to_the_dead_set(redis_url: str, redis: redis_py.Redis) -> None:
    with own_app(redis_url, QueueConfig("q")) as app:
        app.registry.handle("q", lambda message: pytest.fail("begun"))
        with working(app):
            redis.lpush("queue:q", job(deadline=time.time() - 100))
            assert eventually(lambda: redis.zcard("dead") == 1)
    [entry] = map(json.loads, redis.zrange("dead", 0, -1))
    assert re.fullmatch(r"its deadline passed 1\d\d s before it could run", entry["error_message"])


def test_an_async_job_is_cancelled_at_its_limit_and_may_clean_up(redis_url: str, redis: redis_py.Redis) -> None:
    seen: list[str] = []
    with own_app(redis_url, QueueConfig("q", concurrency=1)) as app:

        @app.job(queue="q", timeout=1.0)  # the loop is made first, and it must be in its `try` by then
        async def slow(seconds: float) -> None:
            try:
                await asyncio.sleep(seconds)
                seen.append("ended")
            finally:
                await asyncio.sleep(0)
                seen.append("cleaned up")

        with working(app):
            slow.enqueue(LONG_S)
            slow.set(timeout=LONG_S).enqueue(0)  # a busy machine may keep it longer than 1 s
            assert eventually(lambda: redis.get("stat:processed") == b"2")
    assert seen == ["cleaned up", "ended", "cleaned up"]
    assert fields(redis.zrange("retry", 0, -1), "error_class") == ["goworkers_py.TimeLimitExceeded"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a socket that nobody had yet
def test_what_a_job_pushes_when_it_is_interrupted_is_pushed_or_not_and_connections_stay_whole(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with own_app(redis_url, QueueConfig("q", concurrency=4)) as app:

        @app.job(queue="q", timeout=0.02, retry=False)
        def pushing() -> None:
            # The exception is raised once, and may strike where a library catches everything.
            until = time.monotonic() + 5
            while time.monotonic() < until:
                jid = app.enqueue("other", "Other", ["x" * 2_000])
                assert jid is not None
                assert len(jid) == 24

        with working(app):
            for _ in range(100):
                pushing.enqueue()
            assert eventually(lambda: redis.get("stat:processed") == b"100")
    assert {json.loads(raw)["class"] for raw in redis.lrange("queue:other", 0, -1)} == {"Other"}
    assert not in_progress(redis)
    caplog.clear()  # the records hold tracebacks, and those such sockets
    gc.collect()


# --- stuck jobs


def workers() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("worker:"))


def test_a_stuck_job_is_reported_with_its_stack_counted_and_replaced(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with gated(redis_url, concurrency=1) as (app, gates), started(app) as launcher:
        gates.stuck.enqueue("a")
        gates.quick.enqueue("b")
        assert eventually(lambda: gates.ran == ["b"])  # by another worker
        assert workers() == ["worker:q:1", "worker:q:2"]
        [report] = reports(caplog)
        assert re.match(r"stuck: <Message stuck jid=\w+ queue=q> ran longer than its 0\.5 s and does not end; ", report)
        assert "its thread worker:q:1 is at\n" in report
        assert "self.lock(name).acquire()" in report
        # The other worker may be quicker than the line that tells of it.
        assert eventually(lambda: "started another worker, because the job of worker:q:1 is stuck" in caplog.text)
        assert launcher.health.report()["counts"]["stuck"] == 1
        gates.let_out("a")
        # The one who was replaced ends with its job, and the pool is as large as it was.
        assert eventually(lambda: workers() == ["worker:q:2"])
        assert eventually(lambda: redis.get("stat:processed") == b"2")
        assert eventually(lambda: launcher.health.report()["queues"]["q"]["busy"] == 0)
    assert gates.ran == ["b"]  # the exception waited for "a" in its thread
    assert len(reports(caplog)) == 1


def test_so_many_are_replaced_as_may_be_and_again_when_some_have_ended(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with gated(redis_url, concurrency=1, stuck_spares=1) as (app, gates), started(app):
        for name in ("a", "b"):
            gates.stuck.enqueue(name)
        assert eventually(lambda: len(reports(caplog)) == 2)
        gates.quick.enqueue("c")
        time.sleep(0.3)
        assert gates.ran == []  # the spare is stuck too
        assert len(workers()) == 2
        gates.let_out("b")
        assert eventually(lambda: gates.ran == ["c"])
        gates.let_out("a")
        assert eventually(lambda: len(workers()) == 1)
        gates.stuck.enqueue("d")
        gates.quick.enqueue("e")
        assert eventually(lambda: gates.ran == ["c", "e"])
        gates.let_out("d")


def test_a_job_that_swallows_the_exception_and_goes_on_is_stuck(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    enough = threading.Event()
    with own_app(redis_url, stuck_grace=0.1) as app:

        @app.job(queue="q", timeout=0.3)  # it must spin by then
        def stubborn() -> None:
            while not enough.is_set():
                with suppress(TimeLimitExceeded):
                    spin(0.2)

        with working(app):
            stubborn.enqueue()
            assert eventually(lambda: "in stubborn\n" in "".join(reports(caplog)))
            enough.set()


def test_a_job_that_ends_soon_after_its_limit_is_not_stuck(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    ended: list[int] = []
    with own_app(redis_url, stuck_grace=LONG_S) as app:

        @app.job(queue="q", timeout=0.05, interrupt=False)
        def late(number: int) -> None:
            time.sleep(0.1)
            ended.append(number)

        with started(app) as launcher:
            for number in range(5):
                late.enqueue(number)
            assert eventually(lambda: len(ended) == 5)
            assert eventually(lambda: not launcher._services.watchdog._running)  # none is left to be reported later
    assert not reports(caplog)


def test_a_thread_whose_job_is_within_its_limit_is_not_told_of_as_stuck(redis_url: str) -> None:
    gate = threading.Event()
    with own_app(redis_url, QueueConfig("q", concurrency=1)) as app:

        @app.job(queue="q", timeout=60)
        def working_hard() -> None:
            assert gate.wait(30)

        working_hard.enqueue()
        with started(app) as launcher:
            assert eventually(lambda: launcher.health.report()["queues"]["q"]["busy"] == 1)
            assert launcher.health.report()["queues"]["q"]["stuck"] == 0
            gate.set()


def test_a_stopping_process_replaces_no_worker(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with gated(redis_url, concurrency=1, timeout=1) as (app, gates), started(app) as launcher:
        gates.stuck.enqueue("a")
        assert eventually(lambda: launcher.health.running)
        launcher.managers[0].stop_fetching()
        assert eventually(lambda: reports(caplog))
        time.sleep(0.1)
        assert workers() == ["worker:q:1"]
        gates.let_out("a")


STUCK = """
import threading, time
import goworkers_py as workers

@workers.job(queue="q", timeout=0.6)  # it must be in its lock by then
def stuck():
    threading.Lock().__class__  # C code
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

@workers.job(queue="q")
def other():
    time.sleep(1.5)
    print("the other job has ended", flush=True)
"""


def test_at_so_many_stuck_jobs_the_process_stops_and_gives_them_back(
    redis_url: str, redis: redis_py.Redis, tmp_path: Path
) -> None:
    flags = ("-q", "q=3", "--stuck-exit", "2", "--stuck-grace", "0.3", "-t", "4")
    with own_app(redis_url) as app, Daemon(tmp_path, redis_url, STUCK, *flags).ready() as daemon:
        app.enqueue("q", "other", [])  # first: none begins any more when two are stuck
        stuck = {app.enqueue("q", "stuck", []), app.enqueue("q", "stuck", [])}
        assert daemon.wait() == 1
    assert "ERROR: 2 jobs are stuck: stopping, to be started again" in daemon.output
    assert "the other job has ended" in daemon.output
    assert "asked again" not in daemon.output
    assert set(fields(queue(redis), "jid")) == stuck
    assert not in_progress(redis)


def test_a_watchdog_looks_after_other_things_too() -> None:
    looks: list[float] = []
    dog = Watchdog(1, lambda run, count: None, lambda: looks.append(time.monotonic()))
    dog.look_every_s = 0.01
    dog.start()
    assert eventually(lambda: len(looks) > 3)
    dog.stop()
    assert dog.join(Deadline(20))


def test_a_watchdog_goes_on_when_it_is_in_the_way_of_an_exception(link: Link, caplog: pytest.LogCaptureFixture) -> None:
    """An interruption that cannot be made: the loop of the job's coroutine is closed."""
    link.watchdog.pause_after_fault_s = 0.01

    def broken() -> None:
        message = current_message()
        assert message is not None
        message.interrupt = lambda: 1 // 0
        while not message.expired:
            time.sleep(0.001)

    with caplog.at_level(logging.CRITICAL):
        assert link.run(broken, timeout=0.5) is DONE
        assert eventually(lambda: "thread watchdog failed; starting it again" in caplog.text)
    with pytest.raises(TimeLimitExceeded):
        link.run(spin, timeout=0.05)
