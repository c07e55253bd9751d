"""Asks for the lock of a unique job before the job begins, where its options want that: `unique_until="start"`,
`on_conflict="replace"` and `"reschedule"`. Other unique jobs hold their lock from the push to the end, and need not
ask.

A job with limits asks twice. The first time it only looks, because it may have to wait in the line of a limit: it has
not begun while it waits there. It asks again when it has its places.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, UnreadablePayload
from goworkers_py.core.outcome import REQUEUE_LAST, Outcome, Reschedule
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.holders import LockHolders
from goworkers_py.features.unique.lock import RESCHEDULED_S, Begin, Begun, Holder, TooEarly
from goworkers_py.features.unique.payload import JobLock, renewed
from goworkers_py.links.chain import Run
from goworkers_py.wire import payload
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

    def after_limits(self, lock: JobLock, chain: Run, delivery: Delivery) -> Run:
        """The chain for a job that has looked at its lock and has its places now."""
        if lock.until != "start" and not lock.reads and not lock.owns_at_once:
            return chain
        # Without `takes`: it would wait for another job, which may wait for its places.
        return lambda message: self._begin(message, lock, delivery, takes=False) or chain(message)

    def begin(self, message: Message, lock: JobLock, looks: bool, delivery: Delivery) -> Outcome | None:
        """The outcome of a job that must not begin now. None for one that may; the message has its newest arguments."""
        return self._begin(message, lock, delivery, takes=lock.on_conflict == "reschedule", looks=looks)

    def _begin(
        self, message: Message, lock: JobLock, delivery: Delivery, takes: bool, looks: bool = False
    ) -> Outcome | None:
        if self._locks is None or not message.jid:
            return None
        reads, frees = lock.reads, lock.until == "start" and not looks
        owner = delivery.identity if lock.until == "success" and not looks else ""
        asked = Begin(
            lock.name, message.jid, message.queue, lock.for_s, takes, reads, frees, looks=looks, owner=owner,
            fetched=(delivery.queue, delivery.payload),
        )  # fmt: skip
        try:
            answer = self._asked(self._locks, asked, lock)
        except BrokerUnavailable:
            return REQUEUE_LAST
        except BrokerRefused as error:
            log.error("not begun, tried again in %g s: its lock cannot be read: %s", REFUSED_S, error)
            return self._rescheduled(message, self._wall() + REFUSED_S)
        match answer:
            case Begun(fields):
                if reads:
                    self._renew(message, fields, looks)
                return None
            case TooEarly(due):
                log.info("rescheduled: a later push has given it a later time")
                return self._rescheduled(message, due)
            case Holder(jid):
                log.info("rescheduled: job %s holds the lock %s", jid, lock.name)
                return self._rescheduled(message, self._wall() + RESCHEDULED_S * machine.random.uniform(0.9, 1.1))

    def _asked(self, locks: Locks, asked: Begin, lock: JobLock) -> Begun | TooEarly | Holder:
        answer = locks.begin(asked)
        if isinstance(answer, Holder) and lock.until != "expiry" and self._holders.is_gone(asked.name, answer):
            answer = locks.begin(asked._replace(instead_of=answer.jid))
        return answer

    def _renew(self, message: Message, fields: bytes, looks: bool) -> None:
        """Gives the message the newest fields. It says that it has them: its retries do not read the lock again."""
        try:
            changes = payload.read(fields) if fields else {}
        except UnreadablePayload as error:
            log.error("its lock has unreadable arguments of a later push; it runs with its own: %s", error)
            changes = {}
        message.renew(renewed(message.raw, changes, has_begun=not looks))

    def _rescheduled(self, message: Message, at: float) -> Outcome:
        return Reschedule(at, payload.splice(message.raw, {"queue": message.queue}, drop=("at",)))
