"""The entry of a group among the groups of its class, and the keys of a push that joins a group, see lua/group.lua."""

from __future__ import annotations

from collections.abc import Sequence

import simplejson

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.core.effect import Push
from goworkers_py.features.groups.group import Group, GroupMembership
from goworkers_py.wire.payload import is_name


def entry_of(group: Group) -> str:
    entry = simplejson.dumps([group.queue, group.name])
    return f"{entry} {group.set}" if group.set else entry


def group_in(entry: str, job_class: str) -> Group | None:
    """None for an entry that this release cannot read."""
    try:
        (queue, name), end = simplejson.JSONDecoder().raw_decode(entry)
    except (ValueError, TypeError):
        return None
    if not is_name(queue) or not is_name(name):
        return None
    return Group(queue, job_class, name, entry[end:].strip())


def new_set() -> str:
    return machine.token_hex(12)


def tie(
    member: GroupMembership, push: Push, keys: Keys, number_of: NumberOf, now: float
) -> tuple[int, Sequence[Argument]]:
    group, settings = member
    set_name = new_set()
    numbers = [
        number_of(key)
        for key in (keys.members(group), keys.groups_of(group.job_class), keys.groups, keys.group_set(set_name))
    ]
    values: list[Argument] = [*numbers, entry_of(group), set_name, group.job_class, *settings, group.name, group.queue]
    return number_of(keys.group(group)), values
