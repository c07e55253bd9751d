"""The group of a job in its payload: `{"pyworkers": {"v": 1, "needs": ["group"], "group": {...}}}`.

A member of a group has

name      of the group
grace, delay, size   the settings of its push; missing: those of the code of its class, see `features.groups.group`

The job that aggregates a set of members has

name, queue   of the group
set           the members' set
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goworkers_py.core.values import NamedTuple
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings, OwnSettings
from goworkers_py.features.groups.job_options import GROUP
from goworkers_py.wire import payload
from goworkers_py.wire.needs import field_of, part_of

if TYPE_CHECKING:
    from goworkers_py.core.job_state import StateWord

ENDED_SET = "ended-set"  # a need: the job ends the members of a set that was aggregated before
_MARK = b'"group"'


class JobGroup(NamedTuple):
    group: Group
    said: OwnSettings = OwnSettings()  # of a member

    @property
    def aggregates(self) -> bool:
        """Whether this is the job that aggregates a set."""
        return bool(self.group.set)


class GroupMember(NamedTuple):
    """A member of a set that is aggregated."""

    raw: bytes
    fields: Mapping[str, Any]
    state: StateWord  # how it ends: "completed", or it was dropped before


def member_field(name: str, settings: GroupSettings) -> dict[str, Any]:
    grace_s, max_delay_s, max_size = settings
    field: dict[str, Any] = {"name": name, "grace": grace_s}
    if max_delay_s:
        field["delay"] = max_delay_s
    if max_size:
        field["size"] = max_size
    return field


def field_of_set(group: Group, is_ended: bool) -> dict[str, Any]:
    """The field `pyworkers` of the job that aggregates this set."""
    needs = {GROUP, ENDED_SET} if is_ended else {GROUP}
    return {**field_of(needs), GROUP: {"name": group.name, "queue": group.queue, "set": group.set}}


def group_of(fields: Mapping[str, Any], queue: str) -> JobGroup | None:
    """The group of a job with these fields, found in this queue; None for a job without one, and for one that this
    release cannot read."""
    field = part_of(fields, GROUP)
    job_class: Any = fields.get("wrapped") or fields.get("class")
    if not isinstance(field, dict) or not payload.is_name(field.get("name")) or not payload.is_name(job_class):
        return None
    if "set" in field:
        queue = field.get("queue", queue)
        known = payload.is_name(field["set"]) and payload.is_name(queue)
        return JobGroup(Group(queue, job_class, field["name"], field["set"])) if known else None
    if fields.get("kwargs"):
        return None  # only lists of arguments are aggregated: this job runs by itself
    size = _number(field.get("size"))
    said = OwnSettings(_number(field.get("grace")), _number(field.get("delay")), None if size is None else int(size))
    return JobGroup(Group(queue, job_class, field["name"]), said)


def membership_in(raw: bytes, queue: str) -> GroupMembership | None:
    """The group that a push of this payload joins: for a push that waited to be relayed."""
    found = group_of(payload.read_marked(raw, _MARK), queue)
    if found is None or found.aggregates:
        return None
    return GroupMembership(found.group, found.said.over(GroupSettings()))


def set_in(raw: bytes) -> str:
    """The set that the job of this payload aggregates; empty for any other job."""
    found = group_of(payload.read_marked(raw, _MARK), "")
    return "" if found is None else found.group.set


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= 1e9 else None  # not by `isfinite`, which raises for an int beyond all floats
