"""The slots of limits in a payload: `{"pyworkers": {"v": 1, "needs": ["limits"], "limits": [{...}]}}`.

A job has them that was pushed with its place in a slot, or that has waited in a line. Its end frees the place.

name      of the limit
key       a digest of the key; missing: the limit has no keys
holds     true: the job keeps its place while it waits for a retry, and after its process has died
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from goworkers_py.features.limits.limit import Slot, SlotClaim, SlotTie, is_limit_name
from goworkers_py.wire import payload
from goworkers_py.wire.needs import FIELD, V, part_of

SLOTS = NEED = "limits"  # the member of the field, and the need of a job with it
_MARK = b'"limits"'
# Of one job. A payload that names more was written by a stranger.
MOST_SLOTS = 100


def slots_field(ties: Iterable[SlotTie]) -> list[dict[str, Any]]:
    return [
        {"name": slot.limit, **({"key": slot.key} if slot.key else {}), **({"holds": True} if holds else {})}
        for slot, holds in ties
    ]


def slots_of(fields: Mapping[str, Any]) -> list[SlotTie]:
    """The slots that this release can read."""
    records = part_of(fields, SLOTS)
    if not isinstance(records, list) or len(records) > MOST_SLOTS:
        return []
    return [tie for record in records if (tie := _tie(record)) is not None]


def _tie(record: Any) -> SlotTie | None:
    if not isinstance(record, dict):
        return None
    name, key = record.get("name"), record.get("key", "")
    if not isinstance(name, str) or not isinstance(key, str) or not is_limit_name(name):
        return None
    if key and not is_limit_name(key):
        return None
    return SlotTie(Slot(name, key), record.get("holds") is True)


def slot_claim_in(raw: bytes) -> SlotClaim | None:
    """The claim of a push of this payload: for a push that waited to be relayed."""
    fields = payload.read_marked(raw, _MARK)
    ties, jid = slots_of(fields), payload.jid_of(fields)
    return SlotClaim(ties[0].slot, jid) if ties and jid else None


def with_slots(raw: bytes, fields: Mapping[str, Any], ties: Iterable[SlotTie]) -> bytes:
    """The payload of a job, with these slots."""
    value = fields.get(FIELD)
    known = value.get("needs", []) if isinstance(value, dict) else []
    needs = sorted({NEED, *(need for need in known if payload.is_name(need))}) if isinstance(known, list) else [NEED]
    members = {"v": V, "needs": needs, SLOTS: slots_field(ties)}
    if isinstance(value, dict):
        return payload.splice_into(raw, FIELD, members)
    return payload.splice(raw, {FIELD: members})
