"""How the members of a set end: aggregated into one job, or dropped before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from goworkers_py.core.effect import Effect, MeetTombstone, NoteState
from goworkers_py.policy.consequences import moved
from goworkers_py.wire.group import Member
from goworkers_py.wire.job_record import ENDED_S, RETAIN, retain_in, says_tracked, tracked_of
from goworkers_py.wire.payload import jid_of


def member_ends(members: Iterable[Member], by: str) -> tuple[Effect, ...]:
    """The effects on the records, the locks and the other ties of the members. `by`: the jid of the job that aggregates
    them."""
    return tuple(effect for member in members for effect in _of(member, by))


def _of(member: Member, by: str) -> Iterator[Effect]:
    yield from moved(member.raw, member.state)
    if says_tracked(member.fields) and (job := tracked_of(member.fields)) is not None:
        reason = f"aggregated by {by}" if member.state == "completed" else ""
        yield NoteState(job, member.state, reason, retain_in(member.fields.get(RETAIN)) or ENDED_S)
    if member.state == "cancelled" and (jid := jid_of(member.fields)):
        yield MeetTombstone(jid, "cancelled")
