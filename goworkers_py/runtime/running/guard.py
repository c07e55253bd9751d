"""The outermost link: turns a delivery into an outcome.

A plain job, which is only its class and arguments, goes into the chain at once. Any other job is found by its *marks*,
goes through the rungs that are for these marks, see `rungs`, and inside of them into the chain. `run_ends` then adds
the effects of its end to its outcome. `net` gives an outcome to a run that breaks off outside of the link `retry`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import DONE, Done, Outcome
from goworkers_py.features import RUNGS
from goworkers_py.features.in_process import InProcess
from goworkers_py.links.chain import Run
from goworkers_py.policy import poison
from goworkers_py.policy.needs import Needs
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alarms import Alarms
from goworkers_py.runtime.running.net import Net
from goworkers_py.runtime.running.run_ends import RunEnds
from goworkers_py.runtime.running.rungs import CAME_AGAIN, Rung, Rungs
from goworkers_py.wire.message import Message, reset_current, set_current
from goworkers_py.wire.needs import FIELD as NEEDS

log = logging.getLogger(__name__)

NO_STAND_INS: Mapping[str, Run] = MappingProxyType({})
NO_MARKS = frozenset[str]()
_OF_TIES = frozenset((NEEDS,))  # the marks of a job that has only the field `pyworkers`

Marker = Callable[[Message], Collection[str]]


class RunSuspect(Protocol):
    """Runs a job that may be a suspect: it decides whether the job is one."""

    def __call__(self, message: Message, delivery: Delivery, chain: Run) -> Outcome: ...


class Guard:
    """Shared by all workers of a queue."""

    def __init__(
        self,
        chain: Run,
        net: Net,
        needs: Needs,
        registry: Registry,
        alarms: Alarms,
        parts: Sequence[InProcess],
        ends: RunEnds,
        run_suspect: RunSuspect,
        stand_ins: Mapping[str, Run] = NO_STAND_INS,
        read: Callable[[Delivery], Message] | None = None,
    ) -> None:
        """`parts`: those of the features in this process. `stand_ins`: by their marks the chains around code that runs
        in the place of that of jobs. `read` makes the message of a body of other programs, which is no payload."""
        self._read = read
        self._chain = chain
        self._net = net
        self._needs = needs
        self._registry = registry
        self._alarms = alarms
        self._alarmed = alarms.jobs
        self._ends = ends
        self._run_suspect = run_suspect
        self._markers: dict[str, Marker] = {word: marker for part in parts for word, marker in part.markers().items()}
        self._short_cuts = [
            (word, short_cut) for part in parts for word, short_cut in part.short_cuts(needs.speaks).items()
        ]
        of_features = {name: rung for part in parts for name, rung in part.rungs().items()}
        others = {mark: partial(self._run_chain, chain) for mark, chain in stand_ins.items()}
        innermost = partial(self._run_chain, chain)
        self._rungs = Rungs({**self._own_rungs(), **of_features}, RUNGS, innermost, others)
        self._run_short = self._rungs.run_of(NO_MARKS)  # past the rungs of features
        self._fields = self._rungs.fields

    def _own_rungs(self) -> dict[str, Rung]:
        """The rungs that are of no feature."""
        return {
            "interruption": Rung(self._interruptible, always=True),
            "needs": Rung(self._met, fields=frozenset((NEEDS,))),
            "quarantine": Rung(self._alone, frozenset((CAME_AGAIN,)), frozenset((poison.FIELD,))),
        }

    def run(self, delivery: Delivery) -> Outcome:
        try:
            read = self._read
            message = Message(delivery.payload, delivery.queue) if read is None else read(delivery)
        except UnreadablePayload as error:
            return self._unreadable(delivery, error)
        except BaseException as error:
            return self.broken_off(delivery, error)
        outcome: Outcome | None = None
        # First `message`, then `_alarmed`: a feature raises its alarm first, and looks for the messages of
        # running jobs then. So a job that is cancelled just now is found by one of the two.
        delivery.message = message
        message.delivery, message.begun_at = delivery, delivery.begun_at
        token = set_current(message)
        try:
            if (
                not self._fields.isdisjoint(message.fields) or delivery.clue_name or self._alarmed
                or (self._registry.any_marks and self._registry.marks_of(message))
            ):  # fmt: skip
                return self._run_special(message, delivery)
            outcome = self._chain(message)
            return outcome if message.cancel is None else self._ends.interrupted(message, outcome)
        except BaseException as error:
            return self._caught(message, delivery, outcome or message.outcome, error)
        finally:
            reset_current(token)
            delivery.message = message.held = None  # a delivery lives until it is settled, and would keep the message

    # --- a job that is more than its class and arguments

    def _run_special(self, message: Message, delivery: Delivery) -> Outcome:
        fields, marks = message.fields, self._marks_of(message, delivery)
        run, good_end = None, None
        if marks == _OF_TIES and isinstance(fields[NEEDS], dict):
            for word, short_cut in self._short_cuts:
                if word in fields[NEEDS] and (good_end := short_cut(fields)) is not None:
                    run = self._run_short
                    break
        if run is None:
            run = self._rungs.run_of(marks if NEEDS not in marks else marks | self._marks_of_ties(message))
        outcome = run(message)
        if good_end is not None and outcome is DONE and (jid := message.jid):  # nearly every run past the rungs
            return Done(effects=(good_end(jid),))
        if message.outcome is None:
            self._net.unrun(message, outcome)
        return self._ends.finished(message, outcome)

    def _marks_of(self, message: Message, delivery: Delivery) -> frozenset[str]:
        """The marks that are no ties."""
        marks = self._fields.intersection(message.fields)
        if self._registry.any_marks:
            marks |= self._registry.marks_of(message)
        if self._alarms.ties:
            marks |= self._alarms.ties
        return marks | {CAME_AGAIN} if delivery.clue_name else marks

    def _marks_of_ties(self, message: Message) -> frozenset[str]:
        ties, marks = message.fields[NEEDS], NO_MARKS
        if isinstance(ties, dict):
            for word in ties:
                if (marker := self._markers.get(word)) is not None:
                    marks = marks.union(marker(message))
        return marks

    # --- the rungs that are of no feature, outermost first, and the run inside of all rungs

    def _interruptible(self, run: Run, message: Message) -> Outcome:
        outcome = run(message)
        return outcome if message.cancel is None else self._ends.interrupted(message, outcome)

    def _met(self, run: Run, message: Message) -> Outcome:
        return self._needs.unmet(message) or run(message)

    def _alone(self, run: Run, message: Message) -> Outcome:
        return self._run_suspect(message, delivery=message.delivery, chain=run)

    def _run_chain(self, chain: Run, message: Message) -> Outcome:
        """The rungs get an outcome for certain, and free what they hold."""
        try:
            outcome = chain(message)
        except BaseException as error:
            outcome = self._net.failed(message, error)
        message.outcome = outcome
        return outcome

    # --- faults outside of the link `retry`

    def _unreadable(self, delivery: Delivery, error: UnreadablePayload) -> Outcome:
        try:
            log.error("queue %s: a payload is no job and goes to the dead set: %s", delivery.queue, error)
            return self._ends.unreadable(delivery.payload, error)
        except Exception as fault:
            return self._net.buried(delivery.payload, fault)

    def _caught(self, message: Message, delivery: Delivery, outcome: Outcome | None, error: BaseException) -> Outcome:
        """`outcome`: that of the chain, if it has ended."""
        ended = self._net.failed(message, error) if outcome is None else self._net.kept(outcome, error)
        return self._ends.finished(message, ended)

    def broken_off(self, delivery: Delivery, error: BaseException | None = None) -> Outcome:
        """The outcome of a job whose run an exception has ended that was thrown into the thread from outside. Without
        `error` nobody knows how far the job got. It counts as failed: else it would run again and again."""
        if error is None:
            error = RuntimeError("an exception was thrown into its thread; how far it got is not known")
        try:
            read = self._read
            message = Message(delivery.payload, delivery.queue) if read is None else read(delivery)
        except UnreadablePayload as fault:
            return self._unreadable(delivery, fault)
        except Exception:
            return self._net.buried(delivery.payload, error)
        message.delivery = delivery
        return self._ends.finished(message, self._net.failed(message, error))
