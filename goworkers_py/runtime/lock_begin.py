"""Asks for the lock of a unique job before the job begins, where its options want that: `unique_until="start"`,
`on_conflict="replace"` and `"reschedule"`. Other unique jobs hold their lock from the push to the end, and need not
ask.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from goworkers_py.admin.lock_holders import LockHolders
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, UnreadablePayload
from goworkers_py.core.lock import RESCHEDULED_S, Begin, Begun, Holder, TooEarly
from goworkers_py.core.outcome import REQUEUE_LAST, Outcome, Reschedule
from goworkers_py.wire import payload
from goworkers_py.wire.lock import JobLock, begun
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")

# When the broker refuses to tell about a lock, the job is tried again after so long.
REFUSED_S = 60.0


class LockBegin:
    """Shared by all workers of a process."""

    def __init__(self, broker: Broker, wall: Callable[[], float]) -> None:
        self._locks = broker.locks if Capability.LOCKS in broker.capabilities else None
        self._holders = LockHolders(broker)
        self._wall = wall

    def begin(self, message: Message, lock: JobLock) -> Message | Outcome:
        """The message with which the job runs; or the outcome of a job that must not begin now."""
        if self._locks is None or not message.jid:
            return message
        reads, takes = lock.reads, lock.on_conflict == "reschedule"
        asked = Begin(lock.name, message.jid, message.queue, lock.for_s, takes, reads, lock.until == "start")
        try:
            answer = self._locks.begin(asked)
            if isinstance(answer, Holder) and lock.until != "expiry" and self._holders.is_gone(answer):
                answer = self._locks.begin(asked._replace(instead_of=answer.jid))
        except BrokerUnavailable:
            return REQUEUE_LAST
        except BrokerRefused as error:
            log.error("not begun, tried again in %g s: its lock cannot be read: %s", REFUSED_S, error)
            return self._rescheduled(message, self._wall() + REFUSED_S)
        match answer:
            case Begun(fields):
                return self._renewed(message, fields) if reads else message
            case TooEarly(due):
                log.info("rescheduled: a later push has given it a later time")
                return self._rescheduled(message, due)
            case Holder(jid):
                log.info("rescheduled: job %s holds the lock %s", jid, lock.name)
                return self._rescheduled(message, self._wall() + RESCHEDULED_S * random.uniform(0.9, 1.1))

    def _renewed(self, message: Message, fields: bytes) -> Message:
        """The message with the newest fields. It says that it has them: its retries do not read the lock again."""
        try:
            changes = payload.read(fields) if fields else {}
        except UnreadablePayload as error:
            log.error("its lock has unreadable arguments of a later push; it runs with its own: %s", error)
            changes = {}
        renewed = Message(begun(message.raw, changes), message.queue)
        renewed.cancel = message.cancel
        return renewed

    def _rescheduled(self, message: Message, at: float) -> Outcome:
        return Reschedule(at, payload.splice(message.raw, {"queue": message.queue}, drop=("at",)))
