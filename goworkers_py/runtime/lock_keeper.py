"""The lock keeper's thread: prolongs the locks of unique jobs that run for long, so that a lock does not end before its
job. When the process dies, the locks last for their time, in which the jobs are recovered."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from goworkers_py.brokers.contracts.locks import Locks
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import KeepLock
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire.lock import JobLock, lock_of
from goworkers_py.wire.needs import FIELD

# A lock is prolonged at the first look at its job, and then whenever this part of its time has passed.
PART = 3
# How often the running jobs are looked at, at least and at most.
OFTEN_S, RARELY_S = 0.3, 1.0


class LockKeeper(BrokerService):
    def __init__(
        self,
        locks: Locks | None,
        running: Callable[[], Iterable[Delivery]],
        wall: Callable[[], float],
        outage: Outage,
    ) -> None:
        """`locks`: None where the broker has none."""
        super().__init__("lock keeper", outage)
        self._locks = locks
        self._running = running
        self._wall = wall
        self._next = dict[str, float]()  # when the lock of a running job is prolonged again, by its jid

    def run_once(self) -> float:
        if self._locks is None:
            return RARELY_S
        held = dict(self._held())
        now = self._wall()
        due = {jid: lock for jid, lock in held.items() if self._next.get(jid, 0.0) <= now}
        self._locks.keep([KeepLock(jid, lock.name, lock.for_s) for jid, lock in due.items()])
        self._next = {jid: now + held[jid].for_s / PART if jid in due else self._next[jid] for jid in held}
        return max(OFTEN_S, min([RARELY_S, *(lock.for_s / PART for lock in held.values())]))

    def _held(self) -> Iterable[tuple[str, JobLock]]:
        for delivery in self._running():
            message = delivery.message
            if message is not None and FIELD in message.fields:
                lock = lock_of(message.fields)
                # A lock until its expiry ends then, whatever its job does.
                if lock is not None and lock.until == "success":
                    yield message.jid, lock
