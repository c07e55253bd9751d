"""Which group a job joins, and when that is flushed: by the options of its push and of its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.config.option_values import in_seconds
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import NamedTuple
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.groups.payload import member_field
from goworkers_py.wire.needs import GROUP


class Grouping(NamedTuple):
    """Of the jobs of one push."""

    name: str
    settings: GroupSettings

    def field(self) -> dict[str, Any]:
        """The member of the payload's field."""
        return {GROUP: member_field(self.name, self.settings)}

    def joining(self, queue: str, job_class: str) -> GroupMembership:
        return GroupMembership(Group(queue, job_class, self.name), self.settings)


def settings_in(said: Mapping[str, Any]) -> GroupSettings:
    """The settings that these options give to a group."""
    settings = GroupSettings(max_size=said.get("group_max_size") or 0)
    if grace := said.get("group_grace"):
        settings = settings._replace(grace_s=in_seconds(grace))
    if delay := said.get("group_max_delay"):
        settings = settings._replace(max_delay_s=in_seconds(delay))
    return settings


def grouping_of(said: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Grouping | None:
    """The group that these options of a push ask for; None for a job without one."""
    name = said.get("group")
    if not name:
        return None
    if kwargs:
        raise ArgumentError(
            f"group={name!r} takes no keyword arguments, because a group is aggregated as lists of arguments: give "
            "them by position"
        )
    asks = said.get("unique_until") == "start" or said.get("on_conflict") in ("replace", "reschedule")
    if said.get("unique_for") and asks:
        raise ArgumentError(
            f"group={name!r} does not go with unique_until='start', on_conflict='replace' or 'reschedule', because a "
            "member does not begin by itself; leave them out, or set unique_for=False"
        )
    return Grouping(name, settings_in(said))
