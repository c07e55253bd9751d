"""A job that was cancelled does not begin, and one that was cancelled while it ran ends as that says."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.outcome import (
    CANCELLED,
    FAILED,
    NOT_SETTLED,
    REQUEUE_LAST,
    Cancelled,
    Dead,
    Discard,
    Done,
    Expired,
    Joined,
    Lost,
    Moved,
    Outcome,
    Park,
    Requeue,
    Reschedule,
    Retry,
    Unacknowledged,
)
from goworkers_py.features.cancelling.api import handlers_of
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.cancelling.effects import MeetTombstone
from goworkers_py.features.cancelling.service import MARK, Canceller, of_job, of_set
from goworkers_py.features.in_process import InProcess
from goworkers_py.links.chain import Run
from goworkers_py.links.handlers import tell
from goworkers_py.links.retry import with_kept
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.running.rungs import Rung
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")


class CancellableRuns(InProcess):
    def __init__(self, cancels: Cancels, registry: Registry, canceller: Canceller) -> None:
        self._cancels = cancels
        self._registry = registry
        self._canceller = canceller

    def services(self) -> Sequence[Canceller]:
        return (self._canceller,)

    def shown(self, deliveries: Iterable[Delivery]) -> None:
        self._canceller.look_elsewhere(deliveries)

    # --- the workers' threads

    def rungs(self) -> Mapping[str, Rung]:
        return {"cancelling": Rung(self._run, marks=frozenset((MARK,)))}

    def _run(self, run: Run, message: Message) -> Outcome:
        return self.never_run(message) or run(message)

    def never_begins(self, message: Message) -> StateWord | None:
        return "cancelled" if isinstance(self.never_run(message), Cancelled) else None

    def never_run(self, message: Message) -> Outcome | None:
        """The outcome of a job that was cancelled before it begins; None for any other job."""
        tombstones = self._canceller.tombstones
        if not tombstones:
            return None
        if of_set(message, tombstones):
            return self._never_begun(message, CANCELLED)
        tombstone = of_job(message, tombstones)
        if tombstone is None or tombstone.retry:
            return None
        try:
            if not self._stands(message.jid):
                return None
        except BrokerUnavailable:
            return REQUEUE_LAST  # a job is not dropped on doubt
        return self._never_begun(message, Cancelled(effects=(MeetTombstone(message.jid, "cancelled"),)))

    def _never_begun(self, message: Message, outcome: Outcome) -> Outcome:
        log.info("cancelled before it began, and not run")
        tell(handlers_of(self._registry), message)
        return outcome

    def _stands(self, jid: str) -> bool:
        """Asked before a job is dropped: the tombstone may be gone, and the job another one with the same jid."""
        try:
            return self._cancels.stands(jid)
        except BrokerRefused:
            return True

    def interrupted(self, message: Message, outcome: Outcome) -> Outcome:
        request = message.cancel
        if request is None or isinstance(outcome, NOT_SETTLED):
            return outcome
        goes_on = isinstance(outcome, Requeue | Reschedule | Park)
        if request.retry and goes_on:
            return outcome  # it did not run to its end: it is interrupted the next time
        if not request.retry and (goes_on or isinstance(outcome, FAILED)):
            outcome = with_kept(message, Cancelled())
        if isinstance(outcome, Cancelled):
            tell(handlers_of(self._registry), message)
        met = MeetTombstone(message.jid, _word(outcome))
        return dataclasses.replace(outcome, effects=(*outcome.effects, met))


def _word(outcome: Outcome) -> str:
    match outcome:
        case Cancelled():
            return "cancelled"
        case Done():
            return "completed"
        case Retry():
            return "retry"
        case Dead() | Discard():
            return "dead"
        case Expired():
            return "expired"
        case Requeue() | Reschedule() | Park() | Joined() | Unacknowledged() | Lost() | Moved():
            return "waiting"
