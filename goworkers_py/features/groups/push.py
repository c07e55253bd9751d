"""Which group a job joins, and when that is flushed: by the options of its push and of its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.api.push_part import JobTies, PushPart
from goworkers_py.api.request import PushRequest, require
from goworkers_py.config.option_values import in_seconds
from goworkers_py.core.effect import Push
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupMembership, GroupSettings
from goworkers_py.features.groups.job_options import GROUP
from goworkers_py.features.groups.payload import member_field, membership_in
from goworkers_py.features.parts import Pushes


def settings_in(said: Mapping[str, Any]) -> GroupSettings:
    """The settings that these options give to a group."""
    settings = GroupSettings(max_size=said.get("group_max_size") or 0)
    if grace := said.get("group_grace"):
        settings = settings._replace(grace_s=in_seconds(grace))
    if delay := said.get("group_max_delay"):
        settings = settings._replace(max_delay_s=in_seconds(delay))
    return settings


def check_group(asked: PushRequest) -> None:
    said, job_class = asked.options.said, asked.job_class
    name = said.get("group")
    if not name:
        return
    require(
        not asked.by_others,
        f"{job_class}: a link of a chain or a callback of a batch is in no group: write "
        f"{job_class}.set(group=None).s(...)",
    )
    require(
        not asked.kwargs,
        f"group={name!r} takes no keyword arguments, because a group is aggregated as lists of arguments: give "
        "them by position",
    )
    asks = said.get("unique_until") == "start" or said.get("on_conflict") in ("replace", "reschedule")
    require(
        not (said.get("unique_for") and asks),
        f"group={name!r} does not go with unique_until='start', on_conflict='replace' or 'reschedule', because a "
        "member does not begin by itself; leave them out, or set unique_for=False",
    )


class GroupTies(JobTies):
    has_goal = True

    def __init__(self, name: str, settings: GroupSettings) -> None:
        self.members = {GROUP: member_field(name, settings)}
        self._name, self._settings = name, settings

    def goal(self, fields: Mapping[str, Any]) -> GroupMembership | None:
        if fields.get("kwargs"):  # a client link has added them: the job runs by itself
            return None
        return GroupMembership(Group(fields["queue"], fields["class"], self._name), self._settings)


class GroupPushes(PushPart):
    def ties_of(self, asked: PushRequest) -> GroupTies | None:
        name = asked.options.said.get("group")
        if not name:
            return None
        check_group(asked)
        self._broker().require_part(Groups)
        require(not asked.blocks, "a job of a group cannot be in a batch: push it outside of the batch")
        return GroupTies(name, settings_in(asked.options.said))


def _at_once(push: Push) -> Push:
    """A test waits for no grace."""
    membership = push.tie(GroupMembership)
    return push if membership is None else push.with_tie(membership.without_grace)


PUSHES = Pushes(GroupPushes, check_push=check_group, goal_of_stored=membership_in, at_once=_at_once)
