"""The steps of a running job at its broker, and the end of its process at one of them.

The job's own calls of the broker go through this module: pushes, blocks under a limit, and what a feature does for the
code of the job, such as checkpoints. Those of the worker around the job do not. If asked for, each line of the job's
file is a step too.

A process that is to end at a step ends by `ProcessKilled`, raised in the job's thread. From then on every call of the
job raises it again, and nothing that the job does reaches the broker.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

from goworkers_py.brokers.broker import Broker
from goworkers_py.core.cancel_request import CancelRequest
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.values import dataclass
from goworkers_py.features import FEATURES
from goworkers_py.testing.enqueued_job import EnqueuedJob


class ProcessKilled(BaseException):
    """Raised in a job by `workers.testing.crash_points`, in place of the end of its process. Not an Exception, so that
    a job which catches its errors does not catch this."""


@dataclass(frozen=True)
class Step:
    """A step that a job has made."""

    kind: str  # push, yield, cancel, line, or of a feature
    about: str = ""  # the class that was pushed, the name of the limit, ...
    where: str = ""  # file and line of the program


Arguments = Sequence[Any]


@dataclass(frozen=True)
class StepKind:
    """A call of the broker that is a step."""

    kind: str
    has_done: Callable[[Any], bool] = lambda _: True  # whether the call with this result has done something
    about: Callable[[Arguments], str] = lambda _: ""
    ignored_when_dead: bool = False  # the code of a job that cleans up; any other call raises ProcessKilled again
    by_worker: bool = False  # for the code of the job: no line of the program makes it
    pushes: bool = False  # it may push jobs, which run at once inside of `inline`


@dataclass(frozen=True)
class CrashWay:
    """A way in which `crash_points` runs a job. One of iterable jobs has its `fields` in the payload."""

    checkpoint_s: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""  # behind a crash point, for people
    unsaid_at: str = ""  # the kind of the steps that say it themselves
    ends_at_yields: bool = True


def _pushed(args: Arguments) -> str:
    jobs = [EnqueuedJob.of(push.payload, push.queue) for push in args[0]]
    classes = dict.fromkeys(job.job_class for job in jobs if job is not None)
    return ", ".join(classes) if len(jobs) == 1 else f"{len(jobs)} jobs: {', '.join(classes)}"


# By the part of the broker and its verb.
_STEPS = {
    ("transport", "publish"): StepKind("push", bool, _pushed),
}
# A line counts as a step at most this often in one run.
MOST_OF_A_LINE = 2
# All that the code of a job may ask, beside the parts of features. Not the beats of its blocks, which a thread of ours
# sends.
_PARTS = "transport", "admin"
# Modules between the job's code and a step.
_BETWEEN = {"goworkers_py", "contextlib", "asyncio", "concurrent", "threading"}


class Steps:
    """The steps of one job. `kill_before` and `kill_after` are numbers of steps, from 0 on. At the step `stop_at` the
    process stops in peace, which ends an iterable job at its `yield`."""

    def __init__(self, file: str = "", kill_before: int = -1, kill_after: int = -1, stop_at: int = -1) -> None:
        """`file`: of the code whose lines are steps, in the thread of the job. Empty: no lines are."""
        self.made: list[Step] = []  # threads of the job append
        self.killed = self.stopped = False
        self._kill_before, self._kill_after, self._stop_at = kill_before, kill_after, stop_at
        self._delivery: Delivery | None = None  # of the run that is watched
        self._file = file
        self._often = Counter[int]()  # by the number of the line
        self._traced: Any = None  # what has traced this thread: a debugger, a measure of coverage

    def begin(self, delivery: Delivery) -> None:
        """The run of this delivery begins, in this thread."""
        self._delivery = delivery
        if self._file:
            self._traced = sys.gettrace()
            sys.settrace(self._enter)

    def end(self) -> None:
        """The run has ended. The next one is that of another process, if this one has."""
        if self._file:
            sys.settrace(self._traced)
        self._delivery = None
        if self.killed or self.stopped:
            self._kill_before = self._kill_after = self._stop_at = -1
            self.killed = self.stopped = False

    def around(self, broker: Broker) -> Broker:
        """The broker as the code of the job sees it."""
        return cast(Broker, _Around(broker, self))

    def call(self, part: str, name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
        """A call of the broker, by whatever thread."""
        if self._delivery is None:
            return function(*args, **kwargs)
        step = _steps().get((part, name))
        if self.killed:
            if step is not None and step.ignored_when_dead:
                return None
            raise ProcessKilled
        if step is None:
            return function(*args, **kwargs)
        if len(self.made) == self._kill_before:
            self._kill()
        result = function(*args, **kwargs)
        if step.has_done(result):
            self._make(Step(step.kind, step.about(args), "" if step.by_worker else _where()))
        return result

    def is_stopping(self) -> bool:
        """Asked at each yield of an iterable job, and after the one at which it ends early."""
        if not self.stopped:
            self.stopped = len(self.made) == self._stop_at
            self._make(Step("yield"))
        return self.stopped

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        return self._line if frame.f_code.co_filename == self._file else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        """Python calls it before each line, and raises in the line what is raised here."""
        if event == "line" and not self.killed and self._often[frame.f_lineno] < MOST_OF_A_LINE:
            self._often[frame.f_lineno] += 1
            if len(self.made) == self._kill_before:
                self._kill()
            self.made.append(Step("line", frame.f_code.co_name, _place(frame)))
        return self._line

    def _make(self, step: Step) -> None:
        self.made.append(step)
        if len(self.made) - 1 == self._kill_after:
            self._kill()

    def _kill(self) -> None:
        self.killed = True
        if self._delivery is not None and self._delivery.message is not None:
            # The chain takes the run for one whose job was given to another process, as it is.
            self._delivery.message.cancel = CancelRequest(retry=False, lost=True)
        raise ProcessKilled


class _Around:
    def __init__(self, broker: Broker, steps: Steps) -> None:
        self.__dict__.update({part: _Part(part, partial(getattr, broker, part), steps) for part in _PARTS})
        self._broker = broker
        self._steps = steps

    def part(self, contract: type) -> Any:
        if self._broker.part(contract) is None:
            return None
        return _Part(contract.__name__, partial(self._broker.part, contract), self._steps)

    require_part: Any = Broker.require_part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


class _Part:
    """The parts of a broker are replaced when a test clears it: so they are asked for at each call."""

    def __init__(self, name: str, ask: Callable[[], Any], steps: Steps) -> None:
        self._name = name
        self._ask = ask
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._ask(), name)
        if not callable(value):
            return value
        return lambda *args, **kwargs: self._steps.call(self._name, name, value, args, kwargs)


@cache
def _steps() -> Mapping[tuple[str, str], StepKind]:
    """With those of the features, by their contract and its verb."""
    of_features = {(entry.contract, verb): step for entry in FEATURES for verb, step in entry.for_tests().steps.items()}
    return {**_STEPS, **of_features}


def _where() -> str:
    """The line of the program that makes the step."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    return "" if frame is None else _place(frame)


def _place(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
