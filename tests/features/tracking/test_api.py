"""States and results of jobs that a daemon runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis as redis_py
from apps import own_app, working
from harness import Process
from waiting import eventually

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.places import RETRIES, SCHEDULED, waiting_in
from goworkers_py.api.app import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import DuplicateJob, JobCancelled, JobFailed, NoResult
from goworkers_py.core.outcome import Dead
from goworkers_py.features.tracking import api as results
from goworkers_py.wire import payload
from goworkers_py.wire.message import current_message


@pytest.fixture
def app(broker_address: str) -> Iterator[App]:
    with own_app(broker_address, QueueConfig(name="q", concurrency=3), result_max_bytes=100, timeout=1) as app:
        yield app


def states(app: App, jid: str | None, without: str = "running") -> list[str]:
    """Its moves. On a busy machine a run may last so long that the record says it, and otherwise it does not."""
    return [move.state for move in app.status(str(jid)).timeline if move.state != without]


def test_the_result_of_a_job_is_returned_to_who_waits(app: App) -> None:
    @app.job("Add", queue="q", retain=60)
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    with working(app):
        jid = add.enqueue(1, 2)
        assert app.result(str(jid), timeout=10) == {"sum": 3}
        assert states(app, jid) == ["waiting", "completed"]
        status = app.status(str(jid))
        assert (status.state, status.verified, status.has_result, status.job_class) == ("completed", True, True, "Add")


def outers_of(app: App) -> list[Any]:
    """Jobs that wait for another job."""

    @app.job("Inner", queue="q", retain=60)
    def inner(number: int) -> int:
        return number

    @app.job("Outer", queue="q", retain=60, retry=False)
    def outer(to: str, same_pool: bool) -> int:
        return int(app.result(str(inner.set(queue=to).enqueue(1)), 10, same_pool=same_pool)) + 1

    @app.job("AsyncOuter", queue="q", retain=60, retry=False)
    async def async_outer(to: str, same_pool: bool) -> int:
        return int(await app.aresult(str(inner.set(queue=to).enqueue(1)), 10, same_pool=same_pool)) + 1

    return [outer, async_outer]


@pytest.mark.parametrize("mode", ["threads", "serial"])
def test_a_job_does_not_wait_for_a_job_of_its_own_pool(broker_address: str, mode: str) -> None:
    why = "needs a thread of the pool of queue q"
    with own_app(broker_address, QueueConfig(name="q", concurrency=1, mode=mode), timeout=1) as app, working(app):
        for outer in outers_of(app):
            with pytest.raises(JobFailed, match=why):
                app.result(str(outer.enqueue("q", False)), timeout=10)


def test_a_job_that_becomes_one_of_its_own_pool_while_another_waits_for_it_ends_the_wait(broker_address: str) -> None:
    with own_app(broker_address, QueueConfig(name="q", concurrency=1), timeout=1) as app:

        @app.job("Later", queue="q", retain=60)
        def later() -> None: ...

        @app.job("Outer", queue="q", retain=60, retry=False)
        def outer() -> None:
            app.result(str(later.enqueue_in(0.1)), 10)

        with working(app), pytest.raises(JobFailed, match="needs a thread of the pool of queue q"):
            app.result(str(outer.enqueue()), timeout=10)


def test_a_job_waits_for_a_job_of_another_pool_and_of_its_own_where_it_says_so(broker_address: str) -> None:
    queues = [QueueConfig(name="q", concurrency=2), QueueConfig(name="other", concurrency=1)]
    with own_app(broker_address, *queues, timeout=1) as app, working(app):
        for outer in outers_of(app):
            for said in ("other", False), ("q", True):
                assert app.result(str(outer.enqueue(*said)), timeout=10) == 2


def test_a_job_gets_the_result_of_a_job_of_its_pool_that_has_ended(app: App) -> None:
    @app.job("One", queue="q", retain=60)
    def one() -> int:
        return 1

    @app.job("Next", queue="q", retain=60)
    def after(jid: str) -> int:
        return int(app.result(jid, 10)) + 1

    with working(app):
        jid = str(one.enqueue())
        assert app.result(jid, timeout=10) == 1
        assert app.result(str(after.enqueue(jid)), timeout=10) == 2


def test_a_result_and_its_record_end_after_the_time_that_the_job_says(app: App) -> None:
    jids: list[str] = []

    @app.job("Brief", queue="q", retain=2)
    def brief() -> int:
        return 1

    def kept() -> bool:
        jids.append(str(brief.enqueue()))
        with suppress(NoResult):  # this thread stood still for longer than the result was kept: with another job then
            return bool(app.result(jids[-1], timeout=10) == 1)
        return False

    with working(app):
        assert eventually(kept)
        assert eventually(lambda: app.status(jids[-1]).state == "unknown")


def test_coroutines_and_their_waiters_get_results_too(app: App) -> None:
    @app.job("Double", queue="q", retain=60)
    async def double(a: int) -> int:
        return 2 * a

    async def all_of(jids: list[str]) -> list[int]:
        return await asyncio.gather(*(app.aresult(jid, timeout=10) for jid in jids))

    with working(app):
        jids = [str(double.enqueue(number)) for number in range(20)]
        assert asyncio.run(all_of(jids)) == [2 * number for number in range(20)]


def test_a_job_that_fails_for_good_tells_its_error(app: App) -> None:
    @app.job("Fails", queue="q", retain=60, retry=0)
    def fails() -> None:
        raise KeyError("no such thing")

    @app.job("Drops", queue="q", retain=60, retry=False)
    def drops() -> None:
        raise ValueError("dropped")

    with working(app):
        with pytest.raises(JobFailed, match="no such thing") as caught:
            app.result(str(fails.enqueue()), timeout=10)
        assert caught.value.error_class == "KeyError"
        dropped = str(drops.enqueue())
        with pytest.raises(JobFailed, match="ValueError: dropped"):
            app.result(dropped, timeout=10)
        assert app.status(dropped).state == "dead"


def test_a_retry_is_not_the_end(app: App) -> None:
    @app.job("Later", queue="q", retain=60)
    def later() -> str:
        if current_message().retry_count is None:  # type: ignore[union-attr]
            raise ValueError("not yet")
        return "now"

    with working(app):
        jid = str(later.enqueue())
        assert eventually(lambda: app.status(jid).state == "retry")
        assert app.status(jid).due is not None
        with pytest.raises(TimeoutError, match=r"has not ended within 0\.1 s"):
            app.result(jid, timeout=0.1)
        list(app.inspector.retry(RETRIES, Filter()))
        assert app.result(jid, timeout=10) == "now"
        assert states(app, jid) == ["waiting", "retry", "waiting", "completed"]


def test_a_long_job_is_shown_with_its_progress(app: App) -> None:
    go_on = threading.Event()

    @app.job("Long", queue="q", track=True)
    def long() -> None:
        current_message().progress(1, 4, "a quarter")  # type: ignore[union-attr]
        go_on.wait(30)
        current_message().progress(4, 4, "all")  # type: ignore[union-attr]

    with working(app):
        jid = str(long.enqueue())
        assert eventually(lambda: app.status(jid).progress is not None)
        status = app.status(jid)
        assert (status.state, status.verified, status.owner != "") == ("running", True, True)
        assert status.progress is not None
        assert (status.progress.percent, status.progress.text) == (25.0, "a quarter")
        go_on.set()
        assert eventually(lambda: app.status(jid).state == "completed")
        assert app.status(jid).progress.text == "all"  # type: ignore[union-attr]
        with pytest.raises(NoResult, match="give the job `retain=`"):
            app.result(jid)


def test_a_job_that_does_not_end_in_time_waits_again(app: App) -> None:
    go_on = threading.Event()

    @app.job("Slow", queue="q", track=True)
    def slow() -> None:
        go_on.wait(30)

    with working(app):
        jid = str(slow.enqueue())
        assert eventually(lambda: app.status(jid).state == "running")
        app.quit()
        go_on.set()
        assert states(app, jid, without="") == ["waiting", "running", "waiting"]


def test_results_that_cannot_be_kept_say_why(app: App) -> None:
    @app.job("Odd", queue="q", retain=60)
    def odd(kind: str) -> object:
        return {1, 2} if kind == "set" else "x" * 200

    with working(app):
        with pytest.raises(NoResult, match="not plain JSON"):
            app.result(str(odd.enqueue("set")), timeout=10)
        with pytest.raises(NoResult, match="202 bytes, and result_max_bytes allows 100"):
            app.result(str(odd.enqueue("long")), timeout=10)


def test_a_job_without_a_record_is_waited_for_and_one_that_is_nowhere_is_not(app: App) -> None:
    @app.job("Plain", queue="q")
    def plain() -> int:
        return 1

    jid = str(plain.enqueue())
    assert (app.status(jid).state, app.status(jid).tracked, app.status(jid).verified) == ("waiting", False, True)
    with pytest.raises(TimeoutError, match="or its result is not kept"):
        app.result(jid, timeout=0.1)
    with pytest.raises(NoResult, match="is found nowhere: it has no `retain`"):
        app.result("nobody", timeout=30)


def test_who_waits_learns_what_another_program_has_done(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sidekiq moves jobs and writes no records."""
    monkeypatch.setattr(results, "LOOKS_S", (0.05,))

    @app.job("Lost", queue="nobody", retain=60)
    def lost() -> None: ...

    cleared, killed = str(lost.enqueue()), str(lost.set(queue="other").enqueue())
    app.inspector.clear(waiting_in("nobody"))
    with pytest.raises(NoResult, match="it was last waiting, and another program has moved or deleted it"):
        app.result(cleared, timeout=30)
    other = Process(app.config).begin()
    [job] = other.consume(1, "other")
    dead = payload.splice(job.payload, {"error_class": "Killed", "error_message": "by Ruby"})
    other.settle((job, Dead(dead)))  # without a note for the record
    with pytest.raises(JobFailed, match="Killed: by Ruby"):
        app.result(killed, timeout=30)
    other.leave()
    other.broker.close()


def test_who_waits_learns_that_a_job_was_killed_by_hand(app: App) -> None:
    @app.job("Killed", queue="nobody", retain=60)
    def killed() -> None: ...

    jid = str(killed.enqueue_in(3_600))
    list(app.inspector.kill(SCHEDULED, Filter()))
    with pytest.raises(JobFailed, match=f"^job {jid} was killed before it failed$"):
        app.result(jid, timeout=30)


def test_a_job_whose_class_alone_says_it_is_tracked_is_tracked_from_its_run(app: App) -> None:
    """As when Ruby pushes it."""

    @app.job("Quiet", queue="q", retain=60, retry=2)
    def quiet() -> str:
        if current_message().retry_count is None:  # type: ignore[union-attr]
            raise ValueError("not yet")
        return "done"

    with working(app):
        app.enqueue("q", "Quiet", [])
        assert eventually(lambda: app.inspector.count(RETRIES) == 1)
        [job] = app.inspector.first(RETRIES, 1)
        assert app.status(job.jid).tracked
        list(app.inspector.retry(RETRIES, Filter()))
        assert app.result(job.jid, timeout=10) == "done"
        assert states(app, job.jid) == ["retry", "waiting", "completed"]


def test_a_jid_that_is_kept_is_not_pushed_again(app: App) -> None:
    @app.job("Once", queue="q", retain=60)
    def once(number: int) -> int:
        return number

    assert once.set(jid="one").enqueue(1) == "one"
    with pytest.raises(DuplicateJob, match="job one is waiting") as caught:
        once.set(jid="one").enqueue(2)
    assert (caught.value.jid, caught.value.state) == ("one", "waiting")
    with working(app):
        assert app.result("one", timeout=10) == 1
        with pytest.raises(DuplicateJob, match="is completed"):
            once.set(jid="one").enqueue(3)


def test_a_jid_whose_job_was_deleted_is_free(app: App) -> None:
    @app.job("Once", queue="q", track=True)
    def once() -> None: ...

    once.set(jid="one").enqueue()
    app.inspector.clear(waiting_in("q"))  # writes no records, as a deletion by Sidekiq
    assert once.set(jid="one").enqueue() == "one"
    assert app.inspector.count(waiting_in("q")) == 1


def test_a_free_jid_whose_lock_another_job_has_by_now_is_not_pushed(app: App) -> None:
    @app.job("Once", queue="q", track=True, unique_for=60)
    def once() -> None: ...

    once.set(jid="one").enqueue()
    app.inspector.clear(waiting_in("q"))
    assert once.set(jid="two").enqueue() == "two"
    assert once.set(jid="one").enqueue() is None
    with pytest.raises(DuplicateJob):
        once.set(jid="one", on_conflict="raise").enqueue()
    assert [job.jid for job in app.inspector.first(waiting_in("q"), 9)] == ["two"]


def test_who_waits_for_a_job_that_is_deleted_is_told(app: App) -> None:
    @app.job("Gone", queue="nobody", retain=60)
    def gone() -> None: ...

    jid = str(gone.enqueue())
    timer = threading.Timer(0.3, lambda: list(app.inspector.delete(waiting_in("nobody"), Filter(jids=[jid]))))
    timer.start()
    with pytest.raises(JobCancelled, match="was deleted while it waited"):
        app.result(jid, timeout=10)
    timer.join()


def test_a_job_inside_of_an_atomic_block_has_a_record_when_the_block_has_ended(app: App) -> None:
    @app.job("Child", queue="q", retain=60)
    def child() -> int:
        return 7

    @app.job("Parent", queue="q", retain=60, atomic=True)
    def parent() -> str | None:
        return child.enqueue()

    with working(app):
        jid = app.result(str(parent.enqueue()), timeout=10)
        assert app.result(jid, timeout=10) == 7
        assert app.status(jid).timeline[0].reason == "pushed by a job" or app.broker.name == "memory"


@pytest.mark.server
def test_without_the_right_to_listen_results_come_by_looking(redis_url: str, redis: redis_py.Redis) -> None:
    redis.execute_command("ACL", "SETUSER", "deaf", "reset", "on", ">secret", "~*", "+@all", "-subscribe", "-publish")
    with own_app(redis_url.replace("//", "//deaf:secret@"), QueueConfig(name="q")) as app:

        @app.job("Add", queue="q", retain=60)
        def add(a: int, b: int) -> int:
            time.sleep(0.3)
            return a + b

        with working(app):
            assert app.result(str(add.enqueue(1, 2)), timeout=10) == 3
    redis.execute_command("ACL", "DELUSER", "deaf")
