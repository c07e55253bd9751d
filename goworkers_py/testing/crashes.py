"""Ends a job at each of its crash points, delivers it again, and compares the end with that of an undisturbed run."""

from __future__ import annotations

import copy
import difflib
import pprint
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from goworkers_py.api.app import App
from goworkers_py.api.block_owner import KEEPER
from goworkers_py.api.job import Signature
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import dataclass
from goworkers_py.features import FEATURES, resumer_of
from goworkers_py.testing.enqueued_job import call_text
from goworkers_py.testing.runner import SandboxRunner, as_worker
from goworkers_py.testing.sandbox import MOST_RUNS, Sandbox, must_raise
from goworkers_py.testing.steps import CrashWay, Step, Steps
from goworkers_py.wire.failure import own_traceback
from goworkers_py.wire.hints import own_function
from goworkers_py.wire.message import new_jid

MOST_POINTS, LONGEST_DIFFERENCE = 5, 20
LONGEST_JOIN_S = 5.0

END = Step("end")
STATE, JOBS = "state: ", "jobs: "
HINTS = {
    STATE: "work is done twice, or not at all: look first whether it is done, and do it in one transaction with the "
    "mark that says so, see docs/reliability.md#idempotent-jobs",
    JOBS: "a push before the crash is made twice: declare the job with atomic=True, give the pushed job unique_for, or "
    'say pushed="run" where a second run of it does no harm',
}
UNLIKE = (
    "ends differently in two undisturbed runs, so crash points cannot be compared: let `reset` undo all that the job "
    "does, and leave times and random values out of `state`"
)


@dataclass(frozen=True)
class CrashPoint:
    """A point at which `workers.testing.crash_points` has ended a job. `str(point)` tells it to people."""

    when: str  # before, after; or stop: the process stops in peace, as at a deploy
    step: Step
    number: int  # of the steps of its kind, from 1 on
    of: int
    at: int  # among all steps
    checkpoint_s: float | None  # of an iterable job
    way: str  # in which the job ran, for people

    def __str__(self) -> str:
        if self.step is END:
            return f"killed at its end, before its acknowledgement{self.way}"
        if self.step.kind == "line":
            return f"killed before line {self.step.where} in {self.step.about}{self.way}"
        place = ", ".join(filter(None, (self.step.about, self.step.where)))
        step = f"{self.step.kind} {self.number} of {self.of}{f' ({place})' if place else ''}"
        if self.when == "stop":
            return f"stopped at {step}"
        return f"killed {'at' if self.step.kind == 'yield' else self.when} {step}{self.way}"

    def steps(self, file: str) -> Steps:
        """The steps of a run that ends here. At its end no step does it."""
        if self.step is END:
            return Steps(file)
        if self.when == "stop":
            return Steps(file, stop_at=self.at)
        return Steps(file, kill_before=self.at) if self.when == "before" else Steps(file, kill_after=self.at)


@dataclass
class _End:
    """How the job has left the world."""

    state: Any
    jobs: Counter[str]  # those that wait, are to be retried, or dead


class Trial:
    """A job, and how to look at what it has done."""

    def __init__(
        self,
        app: App,
        call: Signature,
        state: Callable[[], Any],
        reset: Callable[[], Any],
        pushed: str,
        lines: bool,
    ) -> None:
        if pushed not in ("compare", "run", "ignore"):
            raise ArgumentError(f'pushed must be "compare", "run" or "ignore", is {pushed!r}')
        spec, _, options = call.job.target
        for feature in FEATURES:
            if options.said.get(option := feature.gathered_by):
                raise ArgumentError(
                    f"{spec.name} joins a {option}, which runs as one job: say {spec.name}.set({option}=None)"
                )
        self._app, self._call, self._state, self._reset, self._pushed = app, call, state, reset, pushed
        resumer = resumer_of(spec.function)
        self._ways = (CrashWay(),) if resumer is None else resumer.for_tests().crash_ways
        self._file = _file_of(spec.function) if lines else ""
        self._jid = new_jid()  # the same in each run: the job may use it as a key

    def check(self) -> list[CrashPoint]:
        """Raises AssertionError where an end differs."""
        __tracebackhide__ = True
        points: list[tuple[CrashPoint, CrashWay]] = []
        expected = self._run(Steps(), self._ways[0])
        for way in self._ways:
            steps = Steps(self._file)
            # A comparison is worth nothing where two undisturbed runs differ.
            if differences := [*_differences(expected, self._run(steps, way))]:
                raise AssertionError("\n    ".join([f"{self._name} {UNLIKE}:", *differences]))
            points += [(point, way) for point in _points(steps.made, way)]
        found = [(point, differences) for point, way in points if (differences := self._after(point, way, expected))]
        if found:
            raise AssertionError(self._failure_text(found, len(points)))
        return [point for point, _ in points]

    def _after(self, point: CrashPoint, way: CrashWay, expected: _End) -> list[str]:
        """The differences after a crash at this point."""
        try:
            return [*_differences(expected, self._run(point.steps(self._file), way, point))]
        except Exception as error:
            return [f"it failed: {type(error).__name__}: {error}"]

    def _failure_text(self, found: Sequence[tuple[CrashPoint, list[str]]], points: int) -> str:
        lines = [f"{self._name} is not idempotent: {len(found)} of {points} crash points end differently"]
        for point, differences in found[:MOST_POINTS]:
            lines += [f"{point}, then delivered again:", *(f"    {line}" for line in differences)]
        if len(found) > MOST_POINTS:
            lines.append(f"... and at {len(found) - MOST_POINTS} more points")
        report = "\n".join(lines)
        return "\n".join([report, *(f"hint: {hint}" for mark, hint in HINTS.items() if f"    {mark}" in report)])

    @property
    def _name(self) -> str:
        return call_text(self._call.job.name, self._call.args, self._call.kwargs)

    def _run(self, steps: Steps, way: CrashWay, point: CrashPoint | None = None) -> _End:
        """From a fresh state to the end."""
        __tracebackhide__ = True
        with _Attempt(self._app, steps).open() as attempt:
            assert isinstance(attempt, _Attempt)
            self._reset()
            attempt.push(self._call, self._jid, way.fields)
            as_worker(partial(attempt.run, self._jid, point))
            if self._pushed == "run":
                attempt.run_all()
            jobs = attempt.left(only=self._jid if self._pushed == "ignore" else "")
            return _End(copy.deepcopy(self._state()), jobs)


class _Attempt(Sandbox):
    """A block in which the process of the job ends at one of its steps."""

    def __init__(self, app: App, steps: Steps) -> None:
        super().__init__(app)
        self._steps = steps
        self._of_code = steps.around(self._broker)

    def push(self, call: Signature, jid: str, fields: Mapping[str, Any]) -> None:
        with self.app.with_client_link(lambda job: {**job, "jid": jid, **fields}):
            if call.job.enqueue(*call.args, **call.kwargs) is None:
                raise ArgumentError(f"{call.job.name} was not pushed: a client link, or its lock, has stopped the push")

    def run(self, jid: str, point: CrashPoint | None) -> None:
        """Runs the job until it waits in no queue any more."""
        __tracebackhide__ = True
        runner, steps, crashed = self._process(), self._steps, point is None
        for _ in range(MOST_RUNS):
            if (delivery := runner.fetch(jid)) is None:
                break
            steps.begin(delivery)
            before = {*machine.threads()}
            outcome = runner.run(delivery)
            if steps.killed:
                _join_keepers(before)
            killed, stopped = steps.killed or (point is not None and point.step is END and not crashed), steps.stopped
            steps.end()
            if killed:
                self._broker.end_process()
            else:
                run = runner.settle(delivery, outcome)
                if run.error is not None and must_raise(run.error, raise_errors=True):
                    raise run.error.with_traceback(own_traceback(run.error))
            if killed or stopped:
                crashed = True
                runner = self._process()
                runner.recover()
        if not crashed:
            raise RuntimeError("this run did not come so far: do the steps of the job differ from run to run?")

    def _process(self) -> SandboxRunner:
        return SandboxRunner(self.app, self._broker, self._steps.is_stopping, self._of_code)

    def left(self, only: str) -> Counter[str]:
        """The jobs that have not ended: all, or `only` the one with this jid."""
        found = [
            *((job, " (scheduled)" if job.at is not None else "") for job in self.jobs()),
            *((job, " (to be retried)") for job in self.retries()),
            *((job, " (dead)") for job in self.dead()),
        ]
        return Counter(f"{_call(job)}{where}" for job, where in found if only in ("", job.jid))


def _file_of(function: Callable[..., Any]) -> str:
    code = getattr(own_function(function), "__code__", None)
    if code is None:
        raise ArgumentError(f"{function!r} has no lines of Python")
    return str(code.co_filename)


def _join_keepers(before: Collection[machine.Thread]) -> None:
    """The keeper of a block that was killed at its exit would go on to free the place: it ends while the process is
    dead, when nothing that it does reaches the broker."""
    for thread in {*machine.threads()}.difference(before):
        if thread.name == KEEPER:
            thread.join(LONGEST_JOIN_S)


def _call(job: Any) -> str:
    return f"{call_text(job.job_class, job.args, job.kwargs)} in queue {job.queue}"


def _points(steps: Sequence[Step], way: CrashWay) -> Iterator[CrashPoint]:
    """A step of the broker has one before it and one after it."""
    counts, numbers = Counter(step.kind for step in steps), Counter[str]()
    for at, step in enumerate(steps):
        numbers[step.kind] += 1
        said = "" if step.kind == way.unsaid_at else way.said
        number, of = numbers[step.kind], counts[step.kind]
        make = partial(CrashPoint, step=step, number=number, of=of, at=at, checkpoint_s=way.checkpoint_s, way=said)
        if step.kind == "line":
            yield make("before")
        elif step.kind != "yield":
            yield make("before")
            yield make("after")
        elif way.ends_at_yields:
            yield make("after")
            yield make("stop")
    yield CrashPoint("before", END, 1, 1, len(steps), way.checkpoint_s, way.said)


def _differences(expected: _End, end: _End) -> Iterator[str]:
    if end.state != expected.state:
        yield from _of_states(expected.state, end.state)
    for job in {**(end.jobs - expected.jobs), **(expected.jobs - end.jobs)}:
        yield f"{JOBS}{job}: there are {end.jobs[job]}, and without the crash {expected.jobs[job]}"


def _of_states(expected: Any, end: Any) -> Iterator[str]:
    wanted, other = pprint.pformat(expected, width=100).splitlines(), pprint.pformat(end, width=100).splitlines()
    if len(wanted) == len(other) == 1:
        yield f"{STATE}{other[0]}"
        yield f"without the crash: {wanted[0]}"
    else:
        yield f"{STATE}as a diff"
        lines = [*difflib.unified_diff(wanted, other, "without the crash", "state", lineterm="", n=1)]
        yield from lines[:LONGEST_DIFFERENCE]
