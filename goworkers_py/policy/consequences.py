"""The effects of a move or an end of a job on what it is tied to, such as its lock, in the step of the move.

They depend on the payload and the outcome only, and not on the code or the configuration of a process. So they are the
same for a worker that ends the job, for a process that recovers the job from a dead one, and for people who delete or
kill the job.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from goworkers_py.core.effect import Effect
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.outcome import (
    NOT_SETTLED,
    Cancelled,
    Dead,
    Discard,
    Done,
    Expired,
    Joined,
    Outcome,
    Park,
    Requeue,
    Reschedule,
    Retry,
)
from goworkers_py.core.values import NamedTuple
from goworkers_py.features import FEATURES
from goworkers_py.features.parts import Follow, Moves
from goworkers_py.wire import deep, payload
from goworkers_py.wire.needs import FIELD

log = logging.getLogger(__name__)

# A payload without the field has no ties, and most have none.
_MARK = f'"{FIELD}"'.encode()


class JobMove(NamedTuple):
    """Where a job goes."""

    jid: str
    state: StateWord
    due: float | None
    now: float
    discarded: bool = False
    result: object = None  # of a job that has completed, where it goes on
    error: str = ""  # of a job that failed for good, where its payload does not have the error


def consequences(fields: Mapping[str, Any], outcome: Outcome, now: float) -> tuple[Effect, ...]:
    """The effects of a run that ends so."""
    jid = payload.jid_of(fields)
    if not jid or isinstance(outcome, NOT_SETTLED):
        return ()
    if isinstance(outcome, Dead):
        fields = payload.read(outcome.payload)  # it has the error
    return _of_all(fields, move_of(jid, outcome, now))


def move_of(jid: str, outcome: Outcome, now: float) -> JobMove:
    due = outcome.at if isinstance(outcome, Retry | Reschedule) else None
    result = outcome.result if isinstance(outcome, Done) else None
    error = outcome.why if isinstance(outcome, Discard) else ""
    return JobMove(jid, state_of(outcome), due, now, isinstance(outcome, Discard), result, error)


def moved(
    raw: bytes, state: StateWord, due: float | None = None, now: float = 0.0, error: str = ""
) -> tuple[Effect, ...]:
    """The effects of moving a job to a state without a run."""
    if _MARK not in raw:
        return ()
    fields = deep.fields_of(raw)
    jid = payload.jid_of(fields)
    return _of_all(fields, JobMove(jid, state, due, now, error=error)) if jid else ()


@functools.cache
def _moves() -> Sequence[Moves]:
    return [feature.moves() for feature in FEATURES]


@functools.cache
def _followers() -> Mapping[str, Follow]:
    """By the member of the field, in the order of their effects."""
    return {word: follow for moves in _moves() for word, follow in moves.followers.items()}


def taken(raw: bytes, queue: str, owner: str) -> tuple[Effect, ...]:
    """Of a job that comes back into its queue from a process that leaves."""
    of_features = [effect for moves in _moves() for effect in moves.left_behind(raw, queue, owner)]
    return (*of_features, *moved(raw, "waiting"))


def buried(raw: bytes) -> bytes:
    """The payload of a job that dies now."""
    if _MARK in raw:
        for moves in _moves():
            raw = moves.buried(raw)
    return raw


def _of_all(fields: Mapping[str, Any], move: JobMove) -> tuple[Effect, ...]:
    ties = fields.get(FIELD)
    if not isinstance(ties, dict):
        return ()
    found: list[Effect] = []
    for word, follow in _followers().items():
        if word in ties:
            try:
                found += list(follow(fields, move))
            except Exception:  # the other ties of the job, and its move, do not depend on this one
                log.exception("job %s: its tie %s cannot follow it to %s, and is left", move.jid, word, move.state)
    return tuple(found)


_STATES: Mapping[type[Outcome], StateWord] = {
    Done: "completed",
    Retry: "retry",
    Reschedule: "scheduled",
    Dead: "dead",
    Discard: "dead",
    Cancelled: "cancelled",
    Expired: "expired",
    Joined: "grouped",
    **dict.fromkeys((Requeue, Park, *NOT_SETTLED), "waiting"),
}


def state_of(outcome: Outcome) -> StateWord:
    """The state of a job whose run ends so. A link of the user may return an outcome of a class of its own."""
    kind: type[Any] = type(outcome)
    return _STATES[kind if kind in _STATES else next(base for base in kind.__mro__ if base in _STATES)]
