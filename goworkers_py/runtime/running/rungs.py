"""The rungs around the chain of a job that is more than its class and arguments.

A rung goes on by calling the run inside of it, or answers an outcome. The engine and the features give rungs by name,
and `features.RUNGS` has their order, outermost first. A job is run through the rungs whose fields or marks it has.
Which these are is found once for all jobs with the same ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from goworkers_py.core import machine
from goworkers_py.core.outcome import Outcome, Reschedule
from goworkers_py.core.values import NamedTuple
from goworkers_py.links.chain import Run
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message
from goworkers_py.wire.ruby import ruby_flaw

log = logging.getLogger("goworkers_py.job")

# A job is tried again after so long, when the broker refuses what a rung asks before the job begins.
REFUSED_S = 60.0
# Between two looks at a job that can wait in its queue only.
BACK_AGAIN_S = 1.0
# Marks are few, but strangers choose which of them a payload has.
MOST_KEPT = 1_000


RunInside = Callable[[Run, Message], Outcome]  # gets the run inside of the rung


class Rung(NamedTuple):
    run: RunInside
    # For jobs that have one of these `fields` in the payload, or one of these `marks`. Marks come from our code only:
    # from the members of the field `pyworkers` (`InProcess.markers`), and from the job's class (the names of its
    # features). A foreign field that is named like a mark is no mark.
    marks: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    always: bool = False  # for every job
    waits: bool = False  # it may make the job wait
    before_wait: RunInside | None = None  # in the place of `run`, where a rung inside may make the job wait
    after_wait: bool = False  # only inside of a rung that may make the job wait
    of_stand_ins: bool = True  # also for a job in whose place other code runs


# Marks of the engine: of a delivery that came again and again, and of a job that a rung may give other fields.
CAME_AGAIN, RENEWED = "came again", "renewed"


class Rungs:
    """Of one queue. Shared by its workers: two of them may each make the same run."""

    def __init__(
        self, by_name: Mapping[str, Rung], order: Sequence[str], innermost: Run, stand_ins: Mapping[str, Run]
    ) -> None:
        """`innermost`: the run inside of all rungs. `stand_ins`: that of jobs with these marks."""
        if unknown := sorted(by_name.keys() - set(order)):
            raise ValueError(f"a rung has no place in the order of all rungs, features.RUNGS: {', '.join(unknown)}")
        self._order = [by_name[name] for name in order if name in by_name]
        self._innermost, self._stand_ins = innermost, stand_ins
        self._runs: dict[frozenset[str], Run] = {}
        self.fields: frozenset[str] = frozenset().union(*(rung.fields for rung in self._order))
        both = self.fields & frozenset().union(*(rung.marks for rung in self._order))
        if both:
            raise ValueError(f"a mark has the name of a field for which there is a rung: {sorted(both)}")

    def run_of(self, marks: frozenset[str]) -> Run:
        """The run of a job with these marks, among which are the ones of `fields` that its payload has."""
        run = self._runs.get(marks)
        if run is None:
            if len(self._runs) >= MOST_KEPT:
                self._runs.clear()
            run = self._runs[marks] = self._made(marks)
        return run

    def _made(self, marks: frozenset[str]) -> Run:
        chosen: list[Rung] = []
        stand_in = next((run for mark, run in self._stand_ins.items() if mark in marks), None)
        for rung in self._order:
            if stand_in is not None and not rung.of_stand_ins:
                continue
            if not (rung.always or (rung.marks | rung.fields) & marks):
                continue
            if not rung.after_wait or any(outer.waits for outer in chosen):
                chosen.append(rung)
        run, waits = stand_in or self._innermost, False
        for rung in reversed(chosen):
            run = partial(rung.before_wait if waits and rung.before_wait is not None else rung.run, run)
            waits = waits or rung.waits
        return run


def rescheduled(message: Message, at: float) -> Reschedule:
    """The outcome of a job that does not begin now, and is tried again then. A job that Ruby cannot read does not wait
    in the schedule, which Ruby reads: it goes to the back of its queue, and would come again at once, thousands of
    times a second. So it waits a moment here."""
    raw = payload.splice(message.raw, {"queue": message.queue}, drop=("at",))
    if ruby_flaw(raw):
        machine.sleep(BACK_AGAIN_S)  # no Event: an exception thrown into its `wait` could leave its lock locked
    return Reschedule(at, raw)


def refused(message: Message, why: str, now: float) -> Reschedule:
    """The outcome of a job for which the broker refuses what a rung asks."""
    log.error("not begun, tried again in %g s: %s", REFUSED_S, why)
    return rescheduled(message, now + REFUSED_S)
