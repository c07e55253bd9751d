"""The lock of a unique job in its payload: `{"pyworkers": {"v": 1, "needs": ["unique"], "lock": {...}}}`.

name      of the lock: the class and a digest of the key, see `features.unique.uniqueness`
for       seconds for which the lock lasts from the time on at which the job is due
until     "start" or "expiry"; missing: "success"
conflict  "replace" or "reschedule", with which the job has to ask for its lock before it begins
begun     true: the payload has the newest fields, and the lock is not to be read again
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.core.timing import TIMING
from goworkers_py.core.values import NamedTuple
from goworkers_py.features.unique.lock import LockClaim, Until
from goworkers_py.wire import payload
from goworkers_py.wire.needs import FIELD, part_of

LOCK, BEGUN = "lock", "begun"
_UNTIL: dict[Any, Until] = {"start": "start", "expiry": "expiry"}
_MARK = b'"lock"'
SHORT_S = TIMING.lease_s
# The longest time for which an option asks.
LONGEST_S = 1_000_000_000
# The fields that a holder takes over from a later push with `replace`.
_NEWEST = ("args", "kwargs", "expires_at")


class JobLock(NamedTuple):
    name: str
    for_s: int
    until: Until
    on_conflict: str
    reads: bool  # before it begins, the job takes the fields of a later push out of the lock
    # Its time is so short that an outage which no lease notices may end it. Others are owned a moment after the job has
    # begun, see `features.unique.service`.
    owns_at_once: bool
    asks: bool  # the job has to ask for its lock before it begins


def lock_field(name: str, for_s: int, until: str, on_conflict: str) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "for": for_s}
    if until in _UNTIL:
        field["until"] = until
    if on_conflict in ("replace", "reschedule"):
        field["conflict"] = on_conflict
    return field


def lock_of(fields: Mapping[str, Any]) -> JobLock | None:
    """The lock of a job with these fields; None for a job without one, and for one that this release cannot read."""
    lock = part_of(fields, LOCK)
    if not isinstance(lock, dict):
        return None
    name, for_s, conflict = lock.get("name"), lock.get("for"), lock.get("conflict")
    if not payload.is_name(name) or type(for_s) is not int or not 1 <= for_s <= LONGEST_S:
        return None
    until = _UNTIL.get(lock.get("until"), "success") if isinstance(lock.get("until"), str) else "success"
    conflict = conflict if isinstance(conflict, str) else ""
    reads = conflict == "replace" and lock.get(BEGUN) is not True
    owns_at_once = until == "success" and for_s <= SHORT_S
    asks = until == "start" or conflict == "reschedule" or reads or owns_at_once
    return JobLock(name, for_s, until, conflict, reads, owns_at_once, asks)


def claim_in(raw: bytes) -> LockClaim | None:
    """The claim of a push of this payload: for a push that waited to be relayed."""
    fields = payload.read_marked(raw, _MARK)
    lock, jid = lock_of(fields), payload.jid_of(fields)
    if lock is None or not jid:
        return None
    if lock.on_conflict == "replace":
        return LockClaim(lock.name, jid, lock.for_s, "replace", newest_of(fields))
    return LockClaim(lock.name, jid, lock.for_s, "reschedule" if lock.on_conflict == "reschedule" else "skip")


def newest_of(fields: Mapping[str, Any]) -> bytes:
    return payload.write({name: fields[name] for name in _NEWEST if name in fields})


def renewed(raw: bytes, changes: Mapping[str, Any], has_begun: bool) -> bytes:
    """The payload of a job that has read its lock, with the fields that were there in place of its own."""
    if has_begun:
        raw = payload.splice_into(raw, FIELD, {BEGUN: True}, part=LOCK)
    replaced = [name for name in _NEWEST if name not in changes] if changes else ()
    return payload.splice(raw, changes, drop=replaced)
