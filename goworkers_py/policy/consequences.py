"""The effects of a move or an end of a job on its lock, in the step of the move.

They depend on the payload only. So they are the same for a worker that ends the job, for a process that recovers the
job from a dead one, and for people who delete or kill the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.core.effect import Effect, FreeLock, KeepLock
from goworkers_py.core.job_state import ENDED, StateWord
from goworkers_py.core.lock import lock_life_s
from goworkers_py.core.outcome import Cancelled, Dead, Discard, Done, Expired, Keep, Outcome, Reschedule, Retry
from goworkers_py.wire.lock import JobLock, lock_in, lock_of


def consequences(fields: Mapping[str, Any], outcome: Outcome, now: float) -> tuple[Effect, ...]:
    """Of a run that ends so."""
    lock, jid = lock_of(fields), fields.get("jid")
    if lock is None or not isinstance(jid, str) or isinstance(outcome, Keep):
        return ()
    due = outcome.at if isinstance(outcome, Retry | Reschedule) else None
    return _of_lock(lock, jid, _state_of(outcome), due, now)


def moved(raw: bytes, state: StateWord, due: float | None = None, now: float = 0.0) -> tuple[Effect, ...]:
    """Of a job that is moved to a state without a run."""
    found = lock_in(raw)
    return () if found is None else _of_lock(*found, state, due, now)


def _of_lock(lock: JobLock, jid: str, state: StateWord, due: float | None, now: float) -> tuple[Effect, ...]:
    if state == "completed" and lock.until == "expiry":
        return ()
    if state == "dead" and lock.reads:
        return ()  # it may be retried by hand, and its newest arguments are in the lock; the next push takes the lock
    if state in ENDED:
        return (FreeLock(jid, lock.name),)
    return (KeepLock(jid, lock.name, lock_life_s(lock.for_s, due, now), due),)


def _state_of(outcome: Outcome) -> StateWord:
    match outcome:
        case Done():
            return "completed"
        case Dead() | Discard():
            return "dead"
        case Cancelled():
            return "cancelled"
        case Expired():
            return "expired"
        case Retry():
            return "retry"
        case Reschedule():
            return "scheduled"
        case _:
            return "waiting"
