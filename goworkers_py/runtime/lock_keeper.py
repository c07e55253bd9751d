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

# A lock is prolonged when this part of its time has passed.
PART = 3
# How often the running jobs are looked at, at least and at most.
OFTEN_S, RARELY_S = 0.3, 5.0


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

    def run_once(self) -> float:
        if self._locks is None:
            return RARELY_S
        held = list(self._held())
        now = self._wall()
        self._locks.keep([
            KeepLock(jid, lock.name, lock.for_s) for begun_at, jid, lock in held if now - begun_at > lock.for_s / PART
        ])  # fmt: skip
        return max(OFTEN_S, min([RARELY_S, *(lock.for_s / PART for _, _, lock in held)]))

    def _held(self) -> Iterable[tuple[float, str, JobLock]]:
        for delivery in self._running():
            message = delivery.message
            if message is not None and FIELD in message.fields:
                lock = lock_of(message.fields)
                if lock is not None and lock.until != "start":
                    yield delivery.begun_at, message.jid, lock
