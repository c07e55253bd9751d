"""The jobs, the clock and the broker of one test block."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from goworkers_py.api.app import App
from goworkers_py.api.job import Job
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.config.moments import Delay, Moment, after, moment
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import ArgumentError, JobControl, UnknownJob
from goworkers_py.core.job_state import JobState
from goworkers_py.features import FEATURES
from goworkers_py.testing.enqueued_job import EnqueuedJob, JobRun
from goworkers_py.testing.expectation import Expectation
from goworkers_py.testing.fake_broker import FakeBroker
from goworkers_py.testing.runner import SandboxRunner, as_worker
from goworkers_py.wire import payload
from goworkers_py.wire.failure import own_traceback
from goworkers_py.wire.message import Timestamps
from goworkers_py.wire.stored_job import StoredJob

AnyJob = Job[..., Any] | str

MOST_RUNS = 10_000
_ALL = 1_000_000_000

_open: list[Sandbox] = []  # the innermost last; changed by the thread that enters or leaves a block


class Sandbox:
    """`fake()` and `inline()` yield it: `with workers.testing.fake() as sandbox: ...; sandbox.run_all()`.

    The functions of `workers.testing` are the methods of the innermost sandbox. Threads may push while another thread
    calls these methods.
    """

    def __init__(self, app: App, inline: bool = False, raise_errors: bool = True) -> None:
        self.app = app
        self._raise_errors = raise_errors  # by pushes, with `inline`
        at_once, self._published = (self._enqueued_now, self._run_pushed) if inline else (None, _leave)
        self._broker = FakeBroker(app.config, app.clock, at_once, self._published)
        self._of_code: Broker = self._broker  # to which the program pushes

    @contextmanager
    def open(self) -> Iterator[Sandbox]:
        """Inside the block, the App pushes into this sandbox."""
        travelled_s = self.app.clock.travelled_s
        with self.app.with_broker(lambda config: self._of_code):
            self.app.travel(travelled_s)
            _open.append(self)
            try:
                yield self
            finally:
                _open.remove(self)
                self.app.travel(travelled_s)

    # --- running

    def run_all(self, raise_errors: bool = True, limit: int = MOST_RUNS) -> list[JobRun]:
        """Runs every job that is due, also those that the jobs push, until none is left. Returns the runs in order."""
        __tracebackhide__ = True
        return as_worker(partial(self._run, raise_errors, limit, promote=True))

    def run_payload(self, raw: bytes, queue: str) -> JobRun:
        """Puts a payload into a queue, and runs it."""
        self._broker.transport.publish([Push(queue, raw)])
        run = as_worker(lambda: SandboxRunner(self.app, self._broker).run_next(promote=False))
        if run is None:
            raise UnknownJob(f"no code runs the jobs of queue {queue}")
        return run

    def travel(self, delay: Delay, *, periodic: bool = False) -> None:
        """Moves the clock of the App forward, by seconds or a timedelta. Runs nothing. With `periodic`, the periodic
        jobs of each slot in between are pushed."""
        travelled_s = after(delay, self.app.clock.travelled_s)
        if not periodic:
            self.app.travel(travelled_s)
            return
        pushing = [feature.for_tests().before_travel(self.app, self._broker) for feature in FEATURES]
        self.app.travel(travelled_s)
        for push in pushing:
            push()
        self._published()

    def travel_to(self, at: Moment) -> None:
        """Sets the clock of the App to epoch seconds or a datetime. Runs nothing."""
        self.travel(moment(at) - self.app.clock.wall())

    def _run(self, raise_errors: bool, limit: int, promote: bool) -> list[JobRun]:
        __tracebackhide__ = True
        runner, runs = SandboxRunner(self.app, self._broker), []
        while (run := runner.run_next(promote)) is not None:
            if run.error is not None and must_raise(run.error, raise_errors):
                raise run.error.with_traceback(own_traceback(run.error))
            runs.append(run)
            if len(runs) > limit:
                raise RuntimeError(f"more than {limit} jobs ran: does a job push itself? For more, say run_all(limit=)")
        return runs

    def _run_pushed(self) -> None:
        """Of the jobs of one push all run, then the first error is raised."""
        __tracebackhide__ = True
        runs = as_worker(partial(self._run, False, MOST_RUNS, promote=False))
        for run in runs:
            if run.error is not None and must_raise(run.error, self._raise_errors):
                raise run.error.with_traceback(own_traceback(run.error))

    def _enqueued_now(self, raw: bytes) -> bytes:
        now = Timestamps(self.app.config.timestamps).write(self.app.clock.wall())
        return payload.splice(raw, {"enqueued_at": now})

    # --- looking

    def jobs(self, job: AnyJob | None = None, *, queue: str | None = None) -> list[EnqueuedJob]:
        """The jobs in queues, and those that wait for a time, in a line or in a group, in the order of their pushes."""
        queues = [Place(JobState.WAITING, name) for name in self._broker.queues_in_order()]
        others = [Place(state) for state in (JobState.SCHEDULED, JobState.PARKED, JobState.OUTBOX)]
        found = [*self._in([*queues, *others], job, queue), *self._elsewhere(job, queue)]
        return sorted(found, key=lambda enqueued: enqueued.message.created_at or 0.0)

    def retries(self, job: AnyJob | None = None, *, queue: str | None = None) -> list[EnqueuedJob]:
        """The jobs that have failed and wait for their next try, the next one first."""
        return self._in([Place(JobState.RETRY)], job, queue)

    def dead(self, job: AnyJob | None = None, *, queue: str | None = None) -> list[EnqueuedJob]:
        """The jobs that have failed for good, the last one last."""
        return self._in([Place(JobState.DEAD)], job, queue)

    def clear(self) -> None:
        """Forgets all jobs and pushes."""
        self._broker.clear()

    def _in(self, places: Iterable[Place], job: AnyJob | None, queue: str | None) -> list[EnqueuedJob]:
        stored = [stored_job for place in places for stored_job in self._broker.admin.jobs_in(place).first(_ALL)]
        return self._wanted(stored, job, queue)

    def _elsewhere(self, job: AnyJob | None, queue: str | None) -> list[EnqueuedJob]:
        """The jobs in places of features."""
        places = [places for feature in FEATURES if (places := feature.whereabouts().places(self._broker)) is not None]
        return self._wanted([stored for found in places for stored in found.waiting()], job, queue)

    def _wanted(self, stored: Iterable[StoredJob], job: AnyJob | None, queue: str | None) -> list[EnqueuedJob]:
        found = [
            EnqueuedJob(stored_job.message, stored_job.at) for stored_job in stored if stored_job.message is not None
        ]
        wanted = None if job is None else _class_of(job)
        return [
            enqueued for enqueued in found if wanted in (None, enqueued.job_class) and queue in (None, enqueued.queue)
        ]

    # --- asserting

    def assert_enqueued(
        self,
        job: AnyJob,
        /,
        *args: Any,
        queue: str | None = None,
        at: Moment | None = None,
        delay: Delay | None = None,
        count: int | None = None,
        **kwargs: Any,
    ) -> list[EnqueuedJob]:
        """Fails unless the job was pushed since the block began, whether it has run since or not. Returns it."""
        __tracebackhide__ = True
        any_arguments = not args and not kwargs
        expected_args, expected_kwargs = _on_wire(job, args, kwargs)
        expected = Expectation(
            _class_of(job),
            None if any_arguments else expected_args,
            None if any_arguments else expected_kwargs,
            queue,
            None if at is None else moment(at),
            None if delay is None else after(delay, 0.0),
        )
        pushed = self._pushed()
        found = [enqueued for enqueued in pushed if not expected.distance(enqueued)]
        if (not found) if count is None else len(found) != count:
            raise AssertionError(
                expected.failure_text(len(found), "at least 1" if count is None else str(count), pushed)
            )
        return found

    def assert_not_enqueued(
        self,
        job: AnyJob | None = None,
        /,
        *args: Any,
        queue: str | None = None,
        at: Moment | None = None,
        delay: Delay | None = None,
        **kwargs: Any,
    ) -> None:
        """Fails if the job was pushed since the block began; without a job, if any was."""
        __tracebackhide__ = True
        if job is not None:
            self.assert_enqueued(job, *args, queue=queue, at=at, delay=delay, count=0, **kwargs)
        elif pushed := [enqueued for enqueued in self._pushed() if queue in (None, enqueued.queue)]:
            raise AssertionError(
                "\n".join(["jobs were enqueued, expected none:", *(f"    {enqueued}" for enqueued in pushed)])
            )

    def _pushed(self) -> list[EnqueuedJob]:
        jobs = [EnqueuedJob.of(push.payload, push.queue, push.at) for push in [*self._broker.transport.pushed]]
        return [job for job in jobs if job is not None]


def current() -> Sandbox:
    """The innermost sandbox that is open in this process."""
    if not _open:
        raise RuntimeError(
            "no test block is open: write `with workers.testing.fake():` around this, or let the test take the fixture "
            "pyworkers_fake"
        )
    return _open[-1]


def _leave() -> None:
    """Pushed jobs are not run."""


def must_raise(error: BaseException, raise_errors: bool) -> bool:
    """A JobControl is no error: the job has said how its run ends. An exception that is no failure of a job in a test
    (Ctrl-C, or one that test tools throw) is always raised."""
    of_job = isinstance(error, Exception | SystemExit | asyncio.CancelledError)
    return not isinstance(error, JobControl) and (raise_errors or not of_job)


def _on_wire(job: AnyJob, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The JSON of the expected arguments. Arguments that are no values of the job's hints are JSON already, or hold
    `unittest.mock.ANY`."""
    if isinstance(job, Job):
        with suppress(ArgumentError):
            return job.on_wire(args, kwargs)
    return args, kwargs


def _class_of(job: AnyJob) -> str:
    if isinstance(job, str | Job):
        return job if isinstance(job, str) else job.name
    raise ArgumentError(f"{job!r} is no job: give what @workers.job has made, or the name of a class")
