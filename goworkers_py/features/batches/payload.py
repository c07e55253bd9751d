"""The batch of a job in its payload: `{"pyworkers": {"v": 1, "needs": ["batch"], "batch": {"id": ..., "to": [...]}}}`.

id     of the batch, see `features.batches.batch`
to     the queues of the callbacks of the batch and of those around it
over   true: the job is dead, and its batch has counted or noted that. It may be retried by hand
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.features.batches.batch import MOST_LEVELS, Death, Membership
from goworkers_py.wire import deep, payload
from goworkers_py.wire.needs import FIELD, V, part_of, without_member

BATCH, OVER = "batch", "over"
_MARK = b'"batch"'
# The queues of the three callbacks of each level. A payload may name more than the batches need.
MOST_QUEUES = 3 * MOST_LEVELS
# Of an error's text. The payload of the dead job has more of it.
LONGEST_ERROR = 200


def batch_field(member: Membership) -> dict[str, Any]:
    return {BATCH: {"id": member.bid, "to": list(member.to)}}


def batch_of(fields: Mapping[str, Any]) -> Membership | None:
    """The batch of a job with these fields; None for a job without one, and for one that this release cannot read."""
    batch = part_of(fields, BATCH)
    if not isinstance(batch, dict):
        return None
    bid, to = batch.get("id"), batch.get("to", [])
    if not payload.is_name(bid) or bid.count(".") >= MOST_LEVELS or not payload.are_names(to, MOST_QUEUES):
        return None
    return Membership(bid, tuple(to))


def is_over(fields: Mapping[str, Any]) -> bool:
    """Whether the batch of this job, which has one, knows that it was dead."""
    return fields[FIELD][BATCH].get(OVER) is True


def buried(raw: bytes) -> bytes:
    """The payload of a job that dies now. It says that its batch knows that."""
    if _read(raw) is None:
        return raw
    return payload.splice_into(raw, FIELD, {OVER: True}, part=BATCH)


def bid_in(raw: bytes) -> str:
    """The name of the batch of the job with this payload; empty for a job in none."""
    member = _read(raw)
    return "" if member is None else member.bid


def outside(raw: bytes) -> bytes:
    """The payload of the same job in no batch."""
    if _read(raw) is None:
        return raw
    return payload.splice(raw, {FIELD: without_member(deep.fields_of(raw)[FIELD], BATCH)})


def error_of(fields: Mapping[str, Any]) -> str:
    """The last error of this job."""
    kind, message = (text_of(fields.get(name)) for name in ("error_class", "error_message"))
    return f"{kind}: {message}" if kind else message


def shown_class(fields: Mapping[str, Any]) -> str:
    """The class of this job, as people know it."""
    return text_of(fields.get("wrapped") or fields.get("class"))[: payload.LONGEST_NAME]


def death_of(fields: Mapping[str, Any], error: str, now: float) -> bytes:
    """How this job died, as one of the deaths of its batch."""
    death = {"jid": payload.jid_of(fields), "class": shown_class(fields), "error": error[:LONGEST_ERROR], "at": now}
    return payload.write({"v": V, **death})


def text_of(value: Any) -> str:
    """A text that can be written, whatever a stranger has written: empty for what is no text."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def deaths(stored: Sequence[bytes]) -> list[Death]:
    found = []
    for raw in stored:
        try:
            fields = payload.read(raw)
        except UnreadablePayload:
            continue
        jid, job_class, error = (text_of(fields.get(name)) for name in ("jid", "class", "error"))
        at = fields.get("at")
        found.append(Death(jid, job_class, error, at if isinstance(at, float) else 0.0))
    return found


def _read(raw: bytes) -> Membership | None:
    return batch_of(deep.fields_of(raw)) if _MARK in raw else None
