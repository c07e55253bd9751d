"""Tests of programs that push jobs, without a server: `import goworkers_py as workers`, then `workers.testing`.

    def test_an_order_sends_an_invoice():
        with workers.testing.fake():
            place_order(42)
            workers.testing.assert_enqueued(invoice, 42, queue="billing")
            workers.testing.run_all()

docs/testing.md has more. The functions here are the methods of the innermost `Sandbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from goworkers_py.api.app import App
from goworkers_py.api.job import Job, Signature
from goworkers_py.config.moments import Delay, Moment
from goworkers_py.core.default_app import default_app
from goworkers_py.testing.crashes import CrashPoint, Trial
from goworkers_py.testing.enqueued_job import EnqueuedJob, JobRun
from goworkers_py.testing.sandbox import MOST_RUNS, AnyJob, Sandbox, current

__all__ = [
    "CrashPoint",
    "EnqueuedJob",
    "JobRun",
    "Sandbox",
    "assert_enqueued",
    "assert_not_enqueued",
    "clear",
    "crash_points",
    "dead",
    "fake",
    "inline",
    "jobs",
    "retries",
    "run_all",
    "travel",
    "travel_to",
]


@contextmanager
def fake(app: App | None = None) -> Iterator[Sandbox]:
    """`with workers.testing.fake(): ...`: inside the block, jobs that are pushed stay in memory until `run_all()`.

    `fake(app)` is for an App that is not the default one. `@workers.testing.fake()` opens a block around each call of a
    function that is not async.
    """
    with Sandbox(app or default_app()).open() as sandbox:
        yield sandbox


@contextmanager
def inline(app: App | None = None, *, raise_errors: bool = True) -> Iterator[Sandbox]:
    """`with workers.testing.inline(): invoice.enqueue(42)` runs the job before `enqueue` returns.

    A scheduled job runs at once, too. If a job fails, its push raises the error; with `raise_errors=False` the job
    waits for its retry, as in production.
    """
    with Sandbox(app or default_app(), inline=True, raise_errors=raise_errors).open() as sandbox:
        yield sandbox


def run_all(raise_errors: bool = True, limit: int = MOST_RUNS) -> list[JobRun]:
    """`workers.testing.run_all()` runs every job that is due, and every job that those push, until none is left.

    The first job that fails ends it: the job goes to the retries, as in production, and its error is raised.
    `run_all(raise_errors=False)` goes on. `limit` ends a test whose jobs push each other for ever.
    """
    __tracebackhide__ = True
    return current().run_all(raise_errors, limit)


def travel(delay: Delay, *, periodic: bool = False) -> None:
    """`workers.testing.travel(3600)`: the clock of the App goes on by an hour; `run_all()` runs what is due then.

    Seconds or a timedelta. At the end of the block the clock is back. `travel(86_400, periodic=True)` pushes the
    periodic jobs of each slot in between, too.
    """
    current().travel(delay, periodic=periodic)


def travel_to(at: Moment) -> None:
    """`workers.testing.travel_to(datetime(2100, 1, 1, tzinfo=timezone.utc))` sets the clock of the App, as `travel`."""
    current().travel_to(at)


def jobs(job: AnyJob | None = None, *, queue: str | None = None) -> list[EnqueuedJob]:
    """`[job.args for job in workers.testing.jobs(invoice)]`: the jobs that have not run yet, also the scheduled ones.

    All of them, or those of a job, of a class (by its name), of a queue. A job that waits for a retry is in `retries`.
    """
    return current().jobs(job, queue=queue)


def retries(job: AnyJob | None = None, *, queue: str | None = None) -> list[EnqueuedJob]:
    """`workers.testing.retries(invoice)[0].error`: the jobs that have failed and wait for their next try."""
    return current().retries(job, queue=queue)


def dead(job: AnyJob | None = None, *, queue: str | None = None) -> list[EnqueuedJob]:
    """`assert workers.testing.dead() == []`: the jobs that have failed for good."""
    return current().dead(job, queue=queue)


def clear() -> None:
    """`workers.testing.clear()` forgets all jobs and pushes; the clock stays."""
    current().clear()


def assert_enqueued(
    job: AnyJob,
    /,
    *args: Any,
    queue: str | None = None,
    at: Moment | None = None,
    delay: Delay | None = None,
    count: int | None = None,
    **kwargs: Any,
) -> list[EnqueuedJob]:
    """`workers.testing.assert_enqueued(invoice, 42, queue="billing")` fails unless such a job was pushed in the block.

    It does not matter whether the job has run since. Without arguments, any arguments will do; `unittest.mock.ANY`
    stands for one of them. `delay` is that of `enqueue_in`, `at` that of `enqueue_at`, `count` how many such pushes
    there were. Returns the jobs.
    """
    __tracebackhide__ = True
    return current().assert_enqueued(job, *args, queue=queue, at=at, delay=delay, count=count, **kwargs)


def assert_not_enqueued(
    job: AnyJob | None = None,
    /,
    *args: Any,
    queue: str | None = None,
    at: Moment | None = None,
    delay: Delay | None = None,
    **kwargs: Any,
) -> None:
    """`workers.testing.assert_not_enqueued(invoice)` fails if such a job was pushed; without a job, if any was."""
    __tracebackhide__ = True
    current().assert_not_enqueued(job, *args, queue=queue, at=at, delay=delay, **kwargs)


def crash_points(
    job: Job[..., Any] | Signature,
    /,
    *args: Any,
    state: Callable[[], Any] = lambda: None,
    reset: Callable[[], Any] = lambda: None,
    pushed: str = "compare",
    lines: bool = False,
    app: App | None = None,
    **kwargs: Any,
) -> list[CrashPoint]:
    """`workers.testing.crash_points(charge, 42, state=lambda: bank.paid, reset=bank.clear)` fails unless the job comes
    to the same end wherever it is killed.

    The job runs once undisturbed. Then, for each of its crash points, it is killed there and delivered again. Each run
    begins with `reset()` and ends with `state()`, which must be equal to that of the undisturbed run. So must be the
    jobs that wait then; with `pushed="run"` they run first, with `"ignore"` they do not matter. With `lines=True` the
    job is also killed before each line of its file that it runs. Returns the points.
    """
    __tracebackhide__ = True
    call = job if isinstance(job, Signature) else job.s(*args, **kwargs)
    return Trial(app or default_app(), call, state, reset, pushed, lines).check()
