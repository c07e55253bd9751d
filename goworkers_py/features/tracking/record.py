"""The record of a tracked job: its state, its moves, its progress, and its result or its last error.

A job is tracked when its payload has the field `track` or `retain`, or its class has one of these options in its code.
A broker keeps the record as named texts. Each move of the job writes it in the step of the move, see `NoteState`:

    v, state, at, n          the version, the state, when the job came into it, and how many moves there were
    t1, t2, ...              the moves: "state at reason"; the last MOST_MOVES of them are kept
    class, queue             of the job
    group                    grouped: its name
    due                      scheduled, retry: the time, as it is in the set
    owner                    running: the identity of the process
    error_class, error_message   of the last failure
    result                   completed: as JSON; or `lost`: why it could not be kept
    progress                 as JSON: [at, total, text, time]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.core.effect import KEPT_S
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.job_state import STATES
from goworkers_py.features.tracking.effects import TrackedJob
from goworkers_py.wire import payload
from goworkers_py.wire.job_record import JobRecord, Move, Progress

V = "1"
TRACK, RETAIN = "track", "retain"  # fields of a payload
MOST_MOVES = 100
# The record of an ended job without `retain`.
ENDED_S = 3_600
# The jobs that have ended in one way of which the broker has a list.
ENDED_MOST = 10_000

_MARKS = b'"track"', b'"retain"'


def read(jid: str, fields: Mapping[str, bytes]) -> JobRecord | None:
    """None for a record that this release cannot read, or that is none."""

    def text(name: str) -> str:
        return fields.get(name, b"").decode("utf-8", "replace")

    state = next((state for state in STATES if state == text("state")), None)
    if text("v") != V or state is None:
        return None
    moves = int(_number(text("n")))
    kept = range(max(1, moves - MOST_MOVES + 1), moves + 1)
    return JobRecord(
        jid=jid,
        state=state,
        at=_number(text("at")),
        moves=moves,
        queue=text("queue"),
        job_class=text("class"),
        group=text("group"),
        due=text("due") if _is_time(text("due")) else "",
        owner=text("owner"),
        error_class=text("error_class"),
        error_message=text("error_message"),
        result=fields.get("result"),
        lost=text("lost"),
        progress=read_progress(text("progress")),
        timeline=[_move(text(f"t{number}")) for number in kept if f"t{number}" in fields],
        version=f"{text('n')} {text('at')}",
    )


def _move(entry: str) -> Move:
    state, at, reason = (*entry.split(" ", 2), "", "")[:3]
    return Move(state, _number(at), reason)


def read_progress(stored: str) -> Progress | None:
    with suppress(ValueError, TypeError, OverflowError, RecursionError):
        at, total, text, time = simplejson.loads(stored)
        return Progress(float(at), None if total is None else float(total), str(text), float(time))
    return None


def _is_time(moment: str) -> bool:
    """False for what another program has written there."""
    with suppress(ValueError):
        return not math.isnan(float(moment))
    return False


def _number(raw: str) -> float:
    try:
        number = float(raw)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


def tracked_in(raw: bytes) -> TrackedJob | None:
    """The job of a payload that says itself that it is tracked; None for any other payload."""
    fields = payload.read_marked(raw, *_MARKS)
    return tracked_of(fields) if says_tracked(fields) else None


def job_in(raw: bytes) -> TrackedJob | None:
    """The job of any payload with a jid. It may have a record: the code of its class may say that it is tracked."""
    try:
        return tracked_of(payload.read(raw))
    except UnreadablePayload:
        return None


def says_tracked(fields: Mapping[str, Any]) -> bool:
    return fields.get(TRACK) is True or retain_in(fields.get(RETAIN)) > 0


def tracked_of(fields: Mapping[str, Any]) -> TrackedJob | None:
    """The job with these fields; None if its jid names no record."""
    jid, job_class = payload.jid_of(fields), fields.get("wrapped") or fields.get("class")
    return TrackedJob(jid, job_class if payload.is_name(job_class) else "") if jid else None


def retain_in(value: Any) -> int:
    """For how many seconds to keep an ended job; 0 for a value that is no such number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e9:
        return 0
    return max(1, int(value))


def live_s(due: float | None, now: float) -> int:
    """How long the record of a job lives that has not ended."""
    wait_s = 0.0 if due is None else min(max(0.0, due - now), 1e9)
    return KEPT_S + int(wait_s)
