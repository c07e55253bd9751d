"""The effects of a move or an end of a job on what it is tied to, such as its lock, in the step of the move.

They depend on the payload only. So they are the same for a worker that ends the job, for a process that recovers the
job from a dead one, and for people who delete or kill the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from goworkers_py.core.batch import Way
from goworkers_py.core.effect import Effect, EndSet
from goworkers_py.core.job_state import ENDED, StateWord
from goworkers_py.core.outcome import Cancelled, Dead, Discard, Done, Expired, Joined, Keep, Outcome, Reschedule, Retry
from goworkers_py.core.tie_effect import EndInBatch, EndLink
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.limit import SlotTie
from goworkers_py.features.limits.payload import SLOTS, slots_of
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.features.unique.lock import lock_life_s
from goworkers_py.features.unique.payload import LOCK, lock_of
from goworkers_py.wire import deep, payload
from goworkers_py.wire.batch import BATCH, LONGEST_ERROR, batch_of, death_of, error_of, is_over, shown_class
from goworkers_py.wire.chain import CHAIN, chain_of
from goworkers_py.wire.group import group_of
from goworkers_py.wire.needs import FIELD, GROUP

log = logging.getLogger(__name__)

# A payload without the field has no ties, and most have none.
_MARK = f'"{FIELD}"'.encode()


class Change(NamedTuple):
    """Where a job goes."""

    jid: str
    state: StateWord
    due: float | None
    now: float
    discarded: bool = False
    result: object = None  # of a job in a chain
    error: str = ""  # of a job that failed for good, where its payload does not have the error


def consequences(fields: Mapping[str, Any], outcome: Outcome, now: float) -> tuple[Effect, ...]:
    """Of a run that ends so."""
    jid = payload.jid_of(fields)
    if not jid or isinstance(outcome, Keep):
        return ()
    if isinstance(outcome, Dead):
        fields = payload.read(outcome.payload)  # it has the error
    return _of_all(fields, change_of(jid, outcome, now))


def change_of(jid: str, outcome: Outcome, now: float) -> Change:
    due = outcome.at if isinstance(outcome, Retry | Reschedule) else None
    result = outcome.result if isinstance(outcome, Done) else None
    error = outcome.why if isinstance(outcome, Discard) else ""
    return Change(jid, state_of(outcome), due, now, isinstance(outcome, Discard), result, error)


def moved(
    raw: bytes, state: StateWord, due: float | None = None, now: float = 0.0, error: str = ""
) -> tuple[Effect, ...]:
    """Of a job that is moved to a state without a run."""
    if _MARK not in raw:
        return ()
    fields = deep.fields_of(raw)
    jid = payload.jid_of(fields)
    return _of_all(fields, Change(jid, state, due, now, error=error)) if jid else ()


def _of_lock(fields: Mapping[str, Any], change: Change) -> Iterator[Effect]:
    lock, state = lock_of(fields), change.state
    if lock is None or (state == "completed" and lock.until == "expiry"):
        return
    # A dead one that reads may be retried by hand, and its newest arguments are in the lock; the next push takes that.
    if state in ENDED and not (state == "dead" and lock.reads):
        yield FreeLock(change.jid, lock.name)
    else:
        life_s = lock_life_s(lock.for_s, change.due, change.now)
        yield KeepLock(change.jid, lock.name, life_s, change.due)


def of_slots(ties: Iterable[SlotTie], change: Change, queues: tuple[str, ...]) -> Iterator[Effect]:
    """A job that goes on keeps its place in a strict slot, so that its line waits for it."""
    for slot, holds in ties:
        if holds and change.state not in ENDED:
            yield HoldSlot(change.jid, slot)
        else:
            yield LeaveSlot(change.jid, slot, queues)


def _of_limits(fields: Mapping[str, Any], change: Change) -> Iterator[Effect]:
    queue = fields.get("queue")
    yield from of_slots(slots_of(fields), change, (queue,) if payload.is_name(queue) else ())


_WAYS: dict[StateWord, Way] = {
    "completed": "succeeded", "dead": "failed", "cancelled": "cancelled", "expired": "expired",
}  # fmt: skip


def _of_batch(fields: Mapping[str, Any], change: Change) -> Iterator[Effect]:
    member, way = batch_of(fields), _WAYS.get(change.state)
    if member is None or way is None:
        return
    if is_over(fields):  # its batch knows its death, and it was retried by hand
        if way == "succeeded":
            yield EndInBatch(change.jid, member, "revived")
        return
    death = death_of(fields, change.error or error_of(fields), change.now) if way == "failed" else b""
    yield EndInBatch(change.jid, member, way, death, change.discarded)


def _of_chain(fields: Mapping[str, Any], change: Change) -> Iterator[Effect]:
    link = chain_of(fields)
    if link is None or change.state not in ENDED:
        return
    if change.state != "completed":
        why = "discarded" if change.discarded else change.state
        error = (change.error or error_of(fields))[:LONGEST_ERROR] if change.state == "dead" else ""
        yield EndLink(change.jid, link, why=why, job_class=shown_class(fields), error=error)
        return
    member, result = batch_of(fields), payload.encode(change.result).encode() if link.gives else b""
    yield EndLink(change.jid, link, result, bid="" if member is None else member.bid)


def _of_set(fields: Mapping[str, Any], change: Change) -> Iterator[Effect]:
    """The members of a set end with the job that aggregates it. While it is retried or dead, they are safe."""
    found = group_of(fields, "") if change.state == "cancelled" or change.discarded else None
    if found is not None and found.aggregates:
        yield EndSet(change.jid, found.group)


# One for each kind of tie, by its word in the field, in the order of their effects.
_TIES: Mapping[str, Callable[[Mapping[str, Any], Change], Iterator[Effect]]] = {
    LOCK: _of_lock,
    SLOTS: _of_limits,
    CHAIN: _of_chain,  # before the batch: the next link joins it before this job is counted
    BATCH: _of_batch,
    GROUP: _of_set,
}


def _of_all(fields: Mapping[str, Any], change: Change) -> tuple[Effect, ...]:
    ties = fields.get(FIELD)
    if not isinstance(ties, dict):
        return ()
    found: list[Effect] = []
    for word, of_tie in _TIES.items():
        if word in ties:
            try:
                found += list(of_tie(fields, change))
            except Exception:  # the other ties of the job, and its move, do not depend on this one
                log.exception("job %s: its tie %s cannot follow it to %s, and is left", change.jid, word, change.state)
    return tuple(found)


def state_of(outcome: Outcome) -> StateWord:
    """The state of a job whose run ends so."""
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
        case Joined():
            return "grouped"
        case _:
            return "waiting"
