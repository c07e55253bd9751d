"""The outermost link: turns a delivery into an outcome. A plain job goes into the chain at once; any other one goes
through its rungs, see `rungs`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Protocol

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.outcome import Outcome
from goworkers_py.features import RUNGS
from goworkers_py.links.chain import Run
from goworkers_py.policy import poison
from goworkers_py.policy.needs import Needs
from goworkers_py.runtime.running.net import Net
from goworkers_py.runtime.running.quarantine import Quarantine
from goworkers_py.runtime.running.rungs import MARKED, Rung, Rungs
from goworkers_py.runtime.running.special_runs import SpecialRuns, followed
from goworkers_py.wire.message import Message, reset_current, set_current
from goworkers_py.wire.needs import FIELD as NEEDS

log = logging.getLogger(__name__)

NO_STAND_INS: Mapping[str, Run] = MappingProxyType({})
_OF_TIES = frozenset((NEEDS,))  # the marks of a job that has only the field `pyworkers`


class RunSuspect(Protocol):
    def __call__(self, message: Message, delivery: Delivery, chain: Run) -> Outcome: ...


class Guard:
    """Shared by all workers of a queue."""

    def __init__(
        self,
        chain: Run,
        net: Net,
        needs: Needs,
        quarantine: Quarantine,
        runs: SpecialRuns,
        stand_ins: Mapping[str, Run] = NO_STAND_INS,
        read: Callable[[Delivery], Message] | None = None,
    ) -> None:
        """`stand_ins`: by their marks the chains around code that runs in the place of that of jobs. `read` makes the
        message of a body of other programs, which is no payload."""
        self._read = read
        self._chain = chain
        self._net = net
        self._sound = sound = net.around(chain)  # for jobs with ties
        self._needs = needs
        self._short_cuts = (*runs.short_cuts(needs.speaks).items(),)
        # Runs a job that may be a suspect. Replaced before the start where the broker keeps marks of deaths.
        self.run_suspect: RunSuspect = quarantine.run
        self._runs = runs
        self._alarmed = runs.alarms.jobs
        self._registry = runs.registry
        others = {mark: net.around(chain) for mark, chain in stand_ins.items()}
        self._rungs = Rungs({**self._own_rungs(), **runs.rungs()}, RUNGS, sound, others)
        self._fields = self._rungs.fields

    def _own_rungs(self) -> dict[str, Rung]:
        """The rungs that are of this queue."""
        marked, poisoned = frozenset((MARKED,)), frozenset((poison.FIELD,))
        return {
            "interruption": Rung(lambda run, waits: partial(self._interruptible, run), always=True),
            "needs": Rung(lambda run, waits: partial(self._met, run), fields=frozenset((NEEDS,))),
            "quarantine": Rung(lambda run, waits: partial(self._alone, run), marked, poisoned),
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
        message.begun_at = delivery.begun_at
        token = set_current(message)
        try:
            if (
                not self._fields.isdisjoint(message.fields) or delivery.mark or self._alarmed
                or (self._registry.any_marks and self._registry.marks_of(message))
            ):  # fmt: skip
                return self._run_special(message, delivery)
            outcome = self._chain(message)
            return outcome if message.cancel is None else self._runs.interrupted(message, outcome)
        except BaseException as error:
            return self._caught(message, delivery, outcome or message.outcome, error)
        finally:
            reset_current(token)
            delivery.message = message.held = None  # a delivery lives until it is settled, and would keep the message

    def _unreadable(self, delivery: Delivery, error: UnreadablePayload) -> Outcome:
        try:
            log.error("queue %s: a payload is no job and goes to the dead set: %s", delivery.queue, error)
            return self._runs.unreadable(delivery.payload, error)
        except Exception as fault:
            return self._net.buried(delivery.payload, fault)

    def _caught(self, message: Message, delivery: Delivery, outcome: Outcome | None, error: BaseException) -> Outcome:
        """`outcome`: that of the chain, if it has ended."""
        message.delivery = delivery
        ended = self._net.failed(message, error) if outcome is None else self._net.kept(outcome, error)
        return self._runs.with_ties(message, ended)

    def broken_off(self, delivery: Delivery, error: BaseException | None = None) -> Outcome:
        """The outcome of a job whose run an exception has ended that was thrown into the thread from outside. Without
        `error` nobody knows how far the job got. It counts as failed: else it would run again and again."""
        if error is None:
            error = RuntimeError("an exception was thrown into its thread; how far it got is not known")
        try:
            read = self._read
            message = Message(delivery.payload, delivery.queue) if read is None else read(delivery)
            message.delivery = delivery
        except UnreadablePayload as fault:
            return self._unreadable(delivery, fault)
        except Exception:
            return self._net.buried(delivery.payload, error)
        return self._runs.with_ties(message, self._net.failed(message, error))

    def _run_special(self, message: Message, delivery: Delivery) -> Outcome:
        message.delivery = delivery
        marks = self._runs.marks_of(message, self._rungs)
        fields = message.fields
        if NEEDS in fields:
            if marks == _OF_TIES and not delivery.mark and isinstance(fields[NEEDS], dict):
                for word, short_cut in self._short_cuts:
                    if word in fields[NEEDS] and (good_end := short_cut(fields)) is not None:
                        return self._runs.run_short(message, good_end, self._sound)
            marks |= self._runs.marks_of_ties(message)
        if delivery.mark:
            marks |= {MARKED}
        outcome = self._rungs.run_of(marks)(message)
        if message.outcome is None:
            self._net.unrun(message, outcome)
        return self._runs.with_ties(message, outcome)

    # --- the rungs, and the run inside of them

    def _interruptible(self, run: Run, message: Message) -> Outcome:
        outcome = run(message)
        return outcome if message.cancel is None else followed(self._runs.interrupted, message, outcome)

    def _met(self, run: Run, message: Message) -> Outcome:
        return self._needs.unmet(message) or run(message)

    def _alone(self, run: Run, message: Message) -> Outcome:
        """`run_suspect` decides whether the job is a suspect."""
        return self.run_suspect(message, delivery=message.delivery, chain=run)
