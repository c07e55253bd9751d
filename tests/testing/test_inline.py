"""`workers.testing.inline()`: a job runs before its push returns. No test here has a server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from goworkers_py import testing
from goworkers_py.api.app import App
from goworkers_py.testing import Sandbox
from goworkers_py.wire.message import current_message


@pytest.fixture
def sandbox(app: App) -> Iterator[Sandbox]:
    with testing.inline(app) as sandbox:
        yield sandbox


def test_a_job_runs_in_the_thread_of_its_push_before_it_returns(app: App, sandbox: Sandbox) -> None:
    seen: list[object] = []
    job = app.job("J")(lambda number: seen.append((number, threading.get_ident())))
    assert job.enqueue(1)
    job.enqueue_bulk([[2], [3]])
    assert seen == [(number, threading.get_ident()) for number in (1, 2, 3)]
    assert sandbox.jobs() == []


def test_the_pushes_of_a_job_run_inside_it_and_those_of_an_atomic_job_after_it(app: App, sandbox: Sandbox) -> None:
    seen: list[str] = []
    inner = app.job("Inner")(lambda: seen.append("inner"))

    def code() -> None:
        seen.append("begins")
        inner.enqueue()
        message = current_message()
        seen.append(f"{message and message.job_class} ends")

    app.job("Plain")(code).enqueue()
    assert seen == ["begins", "inner", "Plain ends"]
    seen.clear()
    app.job("Atomic", atomic=True)(lambda: code()).enqueue()
    assert seen == ["begins", "Atomic ends", "inner"]


def test_the_pushes_of_an_atomic_block_run_at_its_end(app: App, sandbox: Sandbox) -> None:
    seen: list[int] = []
    job = app.job("J")(seen.append)
    with app.atomic():
        job.enqueue(1)
        job.enqueue_in(60, 2)
        assert seen == []
    assert seen == [1, 2]


def test_the_push_raises_the_error_of_its_job_which_waits_for_a_retry(app: App, sandbox: Sandbox) -> None:
    job = app.job("J")(lambda number: 1 // number)
    with pytest.raises(ZeroDivisionError):
        job.enqueue_bulk([[0], [1], [0]])
    assert [waiting.args for waiting in sandbox.retries()] == [[0], [0]]
    assert sandbox.jobs() == []
    sandbox.assert_enqueued(job, 1)
    sandbox.travel(3600)
    job.enqueue(2)  # a push runs no retry: that is for `run_all`
    assert [run.outcome for run in sandbox.run_all(raise_errors=False)] == ["retry", "retry"]


def test_without_raise_errors_the_push_returns(app: App) -> None:
    with testing.inline(app, raise_errors=False) as sandbox:
        assert app.job("J")(lambda: 1 // 0).enqueue()
        assert len(sandbox.retries("J")) == 1


@pytest.mark.parametrize("atomic", [False, True])
def test_a_scheduled_job_runs_at_once(app: App, sandbox: Sandbox, atomic: bool) -> None:
    seen: list[object] = []

    def code() -> None:
        message = current_message()
        seen.append(message and message.enqueued_at)

    later = app.job("Later")(code)
    app.job("Now", atomic=atomic)(lambda: later.enqueue_in(3600)).enqueue()
    assert seen != [None]
    assert len(seen) == 1
    sandbox.assert_enqueued(later, delay=3600)


def test_a_job_for_another_program_stays(app: App, sandbox: Sandbox) -> None:
    app.enqueue("ruby", "RubyJob", [])
    assert [job.job_class for job in sandbox.jobs()] == ["RubyJob"]


def test_an_async_job_may_push_an_async_job(app: App, sandbox: Sandbox) -> None:
    seen: list[int] = []

    @app.job("J")
    async def code(number: int) -> None:
        await asyncio.sleep(0)
        if number:
            code.enqueue(number - 1)
        seen.append(number)

    code.enqueue(2)
    assert seen == [0, 1, 2]
    asyncio.run(_push(lambda: code.enqueue(0)))
    assert seen == [0, 1, 2, 0]


async def _push(push: object) -> None:
    assert callable(push)
    push()


def test_threads_that_push_at_once_do_not_wait_for_each_other(app: App, sandbox: Sandbox) -> None:
    meet = threading.Barrier(2, timeout=30)
    job = app.job("J")(lambda: meet.wait() and None)
    threads = [threading.Thread(target=job.enqueue) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not meet.broken
    sandbox.assert_enqueued(job, count=2)


def test_a_thousand_jobs_run_in_a_fraction_of_a_second(app: App, sandbox: Sandbox) -> None:
    seen: list[int] = []
    job = app.job("J")(seen.append)
    began = time.perf_counter()
    for number in range(1_000):
        job.enqueue(number)
    assert len(seen) == 1_000
    print(f"pushed and ran 1,000 jobs in {time.perf_counter() - began:.3f} s")
