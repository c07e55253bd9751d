"""The part of groups in Redis: their ties and effects as arguments of the scripts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import simplejson

from goworkers_py.brokers.redis.driver.exchange import Argument, NumberOf
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisPart, TieInRedis
from goworkers_py.brokers.redis.queues.effects import encode
from goworkers_py.core import machine
from goworkers_py.core.effect import Push
from goworkers_py.features.groups.effects import EndMember, EndSet
from goworkers_py.features.groups.group import Group, GroupMembership
from goworkers_py.wire.payload import is_name

LUA = Path(__file__).parent / "lua"


# --- keys


def groups_key(keys: Keys) -> str:
    """Holds the classes that have groups."""
    return f"{keys.prefix}pyworkers:groups"


def groups_of_key(keys: Keys, job_class: str) -> str:
    """Holds the groups of a class, by the times at which they are due."""
    return f"{groups_key(keys)}:{job_class}"


def group_key(keys: Keys, group: Group) -> str:
    """Holds when an open group has begun, and its settings. The names in it may hold any character."""
    names = f"{len(group.queue)} {len(group.job_class)} {group.queue}{group.job_class}{group.name}"
    return f"{keys.prefix}pyworkers:group:{hashlib.sha256(names.encode()).hexdigest()[:32]}"


def members_key(keys: Keys, group: Group) -> str:
    """Holds the members of a group, or of a set."""
    return set_key(keys, group.set) if group.set else f"{group_key(keys, group)}:members"


def set_key(keys: Keys, name: str) -> str:
    """Holds the members of a set."""
    return f"{keys.prefix}pyworkers:group-set:{name}"


def _every_key(keys: Keys) -> dict[str, str]:
    group = Group(queue="QUEUE", job_class="CLASS", name="NAME")
    of_group = group_key(keys, group)
    digest = of_group.rpartition(":")[2]
    return {
        "groups": groups_key(keys),
        "groups_of": groups_of_key(keys, "CLASS"),
        "group": of_group.replace(digest, "DIGEST"),
        "members": members_key(keys, group).replace(digest, "DIGEST"),
        "group_set": set_key(keys, "SET"),
    }


# --- the entry of a group among the groups of its class, see lua/fragments/group.lua


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


# --- ties and effects


def part() -> RedisPart:
    return RedisPart(
        LUA,
        ties={GroupMembership: TieInRedis("group", "group_tie", "group_check", _tie, takes_back=False)},
        effects={EndSet: _end_set, EndMember: _end_member},
        handlers={"group_effects": ("endset", "member")},
        every_key=_every_key,
        types=lambda keys: {groups_key(keys): "set"},
    )


def _tie(
    member: GroupMembership, push: Push, keys: Keys, number_of: NumberOf, now: float
) -> tuple[int, Sequence[Argument]]:
    group, settings = member
    set_name = machine.token_hex(12)
    names = members_key(keys, group), groups_of_key(keys, group.job_class), groups_key(keys), set_key(keys, set_name)
    numbers = [number_of(name) for name in names]
    values: list[Argument] = [*numbers, entry_of(group), set_name, group.job_class, *settings, group.name, group.queue]
    return number_of(group_key(keys, group)), values


def _end_set(effect: EndSet, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    group, into = effect.group, effect.into
    values = [*encode(effect.effects, keys, number_of, now)]
    groups, registry = number_of(groups_of_key(keys, group.job_class)), number_of(groups_key(keys))
    to = (number_of(set_key(keys, into.set)), entry_of(into)) if into else (0, "")
    yield from ("endset", number_of(set_key(keys, group.set)), entry_of(group), 5 + len(values))
    yield from (groups, registry, group.job_class, *to, *values)


def _end_member(effect: EndMember, keys: Keys, number_of: NumberOf, now: float) -> Iterator[Argument]:
    values = [*encode(effect.effects, keys, number_of, now)]
    yield from ("member", number_of(set_key(keys, effect.group.set)), effect.member, len(values), *values)
