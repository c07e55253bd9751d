"""The lock of a unique job follows the moves and the end of the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goworkers_py.core.delivery import FETCHED, Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.core.job_state import ENDED
from goworkers_py.features.parts import Moves
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.features.unique.payload import LOCK, lock_of
from goworkers_py.policy.consequences import JobMove, moved


def of_lock(fields: Mapping[str, Any], move: JobMove) -> Sequence[Effect]:
    lock, state = lock_of(fields), move.state
    if lock is None or (state == "completed" and lock.until == "expiry"):
        return ()
    # A dead one that reads may be retried by hand, and its newest arguments are in the lock; the next push takes that.
    if state in ENDED and not (state == "dead" and lock.reads):
        return (FreeLock(move.jid, lock.name),)
    return (KeepLock(move.jid, lock.name, lock.for_s, move.due),)


def given_back(delivery: Delivery) -> tuple[Effect, ...]:
    """The effects of giving back a job that has begun: its lock has no end of its own while it runs."""
    if delivery.stage is FETCHED:
        return ()
    return tuple(effect for effect in moved(delivery.payload, "waiting") if isinstance(effect, KeepLock))


MOVES = Moves(followers={LOCK: of_lock})
