"""The canceller thread: knows the tombstones of the fleet, and interrupts running jobs that were cancelled, or given to
another process.

A worker looks into `tombstones` before it begins a job, and only when there are any. The thread is told of a new
tombstone at once. Messages may get lost, so it also compares with the broker now and then.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import queue
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import MeetTombstone
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import (
    CANCELLED,
    FAILED,
    LOST,
    REQUEUE_LAST,
    Cancelled,
    Dead,
    Discard,
    Done,
    Expired,
    Keep,
    Outcome,
    Park,
    Requeue,
    Reschedule,
    Retry,
)
from goworkers_py.features.batches.batch import line_of
from goworkers_py.features.batches.payload import batch_of
from goworkers_py.features.cancelling.contract import Cancels
from goworkers_py.features.cancelling.tombstone import CancelRequest, Tombstone
from goworkers_py.features.chains.payload import chain_of
from goworkers_py.links.handlers import Handlers
from goworkers_py.links.interruption import cancel
from goworkers_py.links.retry import with_kept
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire.message import Message
from goworkers_py.wire.needs import FIELD
from goworkers_py.wire.payload import encodable

log = logging.getLogger("goworkers_py.job")

# Another program's cancel of a job that runs here. It does not tell when it was asked for.
_ELSEWHERE = Tombstone(retry=False, at=math.inf)


class Canceller(BrokerService):
    compare_every_s = 5.0

    def __init__(
        self,
        cancels: Cancels,
        registry: Registry,
        handlers: Handlers,
        running: Callable[[], Iterable[Delivery]],
        outage: Outage,
        lost: Callable[[Iterable[Delivery]], Iterable[Delivery]] = lambda deliveries: (),
    ) -> None:
        """`lost` tells which deliveries this process does not hold any more, because it seemed dead for a while."""
        super().__init__("canceller", outage)
        self._lost = lost
        self._cancels = cancels
        self._registry = registry
        self._handlers = handlers
        self._running = running
        # Replaced in one step by this thread; workers read it.
        self.tombstones: Mapping[str, Tombstone] = {}
        self.on_look: Callable[[], None] = lambda: None  # called by this thread after each look
        self._look_elsewhere_at = 0.0  # monotonic
        self._woken: machine.SimpleQueue[None] = machine.SimpleQueue()
        self._version = "?"  # used by `look` only
        self._listens: Callable[[], None] | None = None

    # --- the thread

    def run(self) -> None:
        with suppress(BrokerError):  # then it compares only
            self._listens = self._cancels.listen(lambda: self._woken.put(None))
        try:
            super().run()
        finally:
            if self._listens is not None:
                self._listens()

    def run_once(self) -> float:
        with suppress(queue.Empty):  # one look is for all messages that have come until now
            while True:
                self._woken.get_nowait()
        self.look()
        self._interrupt(self.tombstones)
        if machine.monotonic() >= self._look_elsewhere_at:
            self._look_elsewhere_at = machine.monotonic() + self.compare_every_s
            self.look_elsewhere(self._running())
        self.lose(self._lost(self._running()))
        return self.compare_every_s

    def lose(self, deliveries: Iterable[Delivery]) -> None:
        """From any thread: these jobs were given to another process."""
        for delivery in deliveries:
            self._cancel(delivery.message, CancelRequest(retry=False, lost=True))

    def look(self) -> None:
        """By this thread, and once before it is started."""
        changed = self._cancels.all(self._version)
        if changed is not None:
            self._version, self.tombstones = changed
        self.on_look()

    def look_elsewhere(self, deliveries: Iterable[Delivery]) -> None:
        """From any thread. Interrupts those of these jobs that another program has cancelled."""
        messages = [delivery.message for delivery in deliveries]
        jids = {message.jid for message in messages if message is not None and message.jid and encodable(message.jid)}
        shown = {message.jid for message in messages if message is not None and getattr(message, "shown", False)}
        self._interrupt(dict.fromkeys(self._cancels.elsewhere(jids, shown), _ELSEWHERE))

    def _interrupt(self, tombstones: Mapping[str, Tombstone]) -> None:
        if not tombstones:
            return
        for delivery in self._running():
            message = delivery.message
            if message is None:
                continue
            tombstone = _batch_of(message, tombstones) or _of(message, tombstones)
            if tombstone is not None:
                self._cancel(message, CancelRequest(tombstone.retry))

    def _cancel(self, message: Message | None, request: CancelRequest) -> None:
        if message is not None:
            cancel(message, request, self._registry.is_interrupted_by_cancel(message))

    def wait_between(self, seconds: float) -> None:
        with suppress(queue.Empty):
            self._woken.get(timeout=seconds)

    def wake(self) -> None:
        self._woken.put(None)

    # --- the workers' threads

    def never_run(self, message: Message) -> Outcome | None:
        """The outcome of a job that was cancelled before it begins; None for any other job."""
        if _batch_of(message, self.tombstones):
            return self._never_begun(message, CANCELLED)
        tombstone = _of(message, self.tombstones)
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
        self._handlers.tell_of_cancel(message)
        return outcome

    def _stands(self, jid: str) -> bool:
        """Asked before a job is dropped: the tombstone may be gone, and the job another one with the same jid."""
        try:
            return self._cancels.stands(jid)
        except BrokerRefused:
            return True

    def ended(self, message: Message, outcome: Outcome) -> Outcome:
        """The outcome of a job that was cancelled, or given to another process, while it ran."""
        request = message.cancel
        if request is not None and request.lost:
            # Any other outcome finds that the job is not in progress here, and changes nothing.
            return LOST if isinstance(outcome, Keep) else outcome
        if request is None or isinstance(outcome, Keep):
            return outcome
        goes_on = isinstance(outcome, Requeue | Reschedule | Park)
        if request.retry and goes_on:
            return outcome  # it did not run to its end: it is interrupted the next time
        if not request.retry and (goes_on or isinstance(outcome, FAILED)):
            outcome = with_kept(message, Cancelled())
        if isinstance(outcome, Cancelled):
            self._handlers.tell_of_cancel(message)
        met = MeetTombstone(message.jid, _word(outcome))
        return dataclasses.replace(outcome, effects=(*outcome.effects, met))


def _of(message: Message, tombstones: Mapping[str, Tombstone]) -> Tombstone | None:
    tombstone = tombstones.get(message.jid)
    return tombstone if tombstone is not None and tombstone.is_of(message.created_at) else None


def _batch_of(message: Message, tombstones: Mapping[str, Tombstone]) -> Tombstone | None:
    """The tombstone of the chain of the job, of its batch, or of one around it. Their names are never used again, and
    only their end removes the tombstone. So nobody asks whether it still stands."""
    if FIELD not in message.fields:
        return None
    member, link = batch_of(message.fields), chain_of(message.fields)
    names = [*(line_of(member.bid) if member else ()), *([link.cid] if link else ())]
    return next((tombstones[name] for name in names if name in tombstones), None)


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
        case _:
            return "waiting"
