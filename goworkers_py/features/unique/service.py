"""The lock keeper's thread: the lock of a unique job that runs names this process as its owner, and has no end of its
own: an outage that is longer than the time of the lock must not end it before its job.

The settlement of the job, or its recovery, frees the lock or gives it a time again. Where neither has done it, this
thread does, after the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from goworkers_py.core.delivery import Delivery
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import OwnedLock
from goworkers_py.features.unique.payload import lock_of
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire.needs import FIELD

log = logging.getLogger(__name__)

# How often the running jobs are looked at. A job that is shorter costs nothing here. A lock of a short time is owned as
# its job begins, see `JobLock.owns_at_once`.
LOOK_EVERY_S = 0.25
# An owner is written again when this part of the time of the lock has passed: where the access rules do not allow a
# lock without an end, it is prolonged so.
PART = 3


class LockKeeper(BrokerService):
    def __init__(
        self,
        locks: Locks,
        running: Callable[[], Iterable[Delivery]],
        wall: Callable[[], float],
        outage: Outage,
    ) -> None:
        super().__init__("lock keeper", outage)
        self._locks = locks
        self._running = running
        self._wall = wall
        self._owned = dict[OwnedLock, float]()  # when they are written again; this thread only

    def run_once(self) -> float:
        held = set(self._held())
        self._own([lock for lock in held if self._owned.get(lock, 0.0) <= self._wall()])
        ended = [lock for lock in self._owned if lock not in held]
        if ended:
            self._locks.disown(ended)
            for lock in ended:
                del self._owned[lock]
        return LOOK_EVERY_S

    def _own(self, due: Sequence[OwnedLock]) -> None:
        if not due:
            return
        first = {lock for lock in due if lock not in self._owned}
        # First noted, then written: where the reply is lost, the lock gets its time back after the run all the same.
        self._owned.update(dict.fromkeys(due, 0.0))
        for lock, other in zip(due, self._locks.own(due), strict=True):
            if other is not None:
                self._owned[lock] = self._wall() + lock.for_s / PART
            if other and lock in first:
                log.warning(
                    "unique job %s runs without its lock %s: its time ended before the job began or in an outage, and "
                    "job %s has it now", lock.jid, lock.name, other,
                )  # fmt: skip

    def _held(self) -> Iterator[OwnedLock]:
        for delivery in self._running():
            message = delivery.message
            if message is not None and FIELD in message.fields:
                lock = lock_of(message.fields)
                # A lock until its expiry ends then, whatever its job does.
                if lock is not None and lock.until == "success":
                    yield OwnedLock(lock.name, message.jid, lock.for_s, delivery.identity)
