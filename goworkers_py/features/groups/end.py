"""How the members of a set end: aggregated into one job, or dropped before.

A step is bounded. So a set whose members' ends are many is not deleted in the step that pushes the one job: it becomes
an ended set there, and the job that aggregates it is requeued for it. Each run of that job ends some members, and the
last one is done. A run that is killed is recovered, and goes on with the members that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from goworkers_py.core.effect import Effect
from goworkers_py.features import FEATURES
from goworkers_py.features.groups.effects import EndMember, EndSet
from goworkers_py.features.groups.group import Group
from goworkers_py.features.groups.job_options import GROUP
from goworkers_py.features.groups.payload import GroupMember, group_of
from goworkers_py.features.parts import Moves
from goworkers_py.policy.consequences import JobMove, moved

# Effects of members in one step: at about 40 us each, they keep the server busy for 20 ms.
AT_ONCE = 500
_ENDED = "-ended"


def is_ended(group: Group) -> bool:
    """Whether the one job of this set was pushed: its members are left to be ended."""
    return group.set.endswith(_ENDED)


def of_set(fields: Mapping[str, Any], move: JobMove) -> Iterator[Effect]:
    """The members of a set end with the job that aggregates it. While it is retried or dead, they are safe."""
    found = group_of(fields, "") if move.state == "cancelled" or move.discarded else None
    if found is not None and found.aggregates:
        yield EndSet(move.jid, found.group)


def end_of_set(group: Group, members: Sequence[GroupMember], effects: tuple[Effect, ...], by: str) -> EndSet:
    """`effects` are those of the function that has aggregated the members, of which at most AT_ONCE were dropped."""
    ends = member_ends(members, by)
    if len(ends) <= AT_ONCE:
        return EndSet(by, group, (*effects, *ends))
    dropped = ends_of([member for member in members if member.state != "completed"], group, by)
    return EndSet(by, group, (*effects, *dropped), group._replace(set=group.set + _ENDED))


def ends_of(members: Iterable[GroupMember], group: Group, by: str) -> tuple[EndMember, ...]:
    """The members leave the set, which stays."""
    return tuple(EndMember(by, group, member.raw, tuple(_of(member, by))) for member in members)


def member_ends(members: Iterable[GroupMember], by: str) -> tuple[Effect, ...]:
    """The effects on the records, the locks and the other ties of the members. `by`: the jid of the job that aggregates
    them."""
    return tuple(effect for member in members for effect in _of(member, by))


def _of(member: GroupMember, by: str) -> Iterator[Effect]:
    yield from moved(member.raw, member.state)
    reason = f"aggregated by {by}" if member.state == "completed" else ""
    for feature in FEATURES:
        yield from feature.moves().ended_without_run(member.fields, member.state, reason)


MOVES = Moves(followers={GROUP: of_set})
