"""The groups in Redis. An open group is a list and a hash, a set of members is a list: see lua/fragments/group.lua."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from goworkers_py.brokers.redis.admin.list_pages import ranges
from goworkers_py.brokers.redis.admin.moved_jobs import MovedJobs
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, Script, as_number, text
from goworkers_py.brokers.redis.driver.replies import list_of, one_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import DueGroups, Group, GroupEntry, GroupSettings, OwnSettings
from goworkers_py.features.groups.redis_part import (
    LUA,
    entry_of,
    group_in,
    group_key,
    groups_key,
    groups_of_key,
    members_key,
)

# Groups and members that are read, or deleted, in one step, and classes whose groups are.
PAGE, CLASSES = 500, 50

_FLUSH = Script(LUA / "flush.lua", one_of(int))
_CONFIGURE = Script(LUA / "configure_group.lua", one_of(int))
_LEAVE = Script(LUA / "leave_group.lua", list_of(int))
_FIELDS = ("first", "grace", "delay", "size", "own_grace", "own_delay", "own_size")


class RedisGroups(Groups):
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def due(self, job_class: str, limit: int, passed: int = 0) -> DueGroups:
        count, start, found = passed + limit + 1, 0, list[Group]()
        while True:
            page = "LIMIT", start, count
            asked = ("ZRANGEBYSCORE", groups_of_key(self._keys, job_class), "-inf", "(inf", "WITHSCORES", *page)
            (seconds, micros), listed = self._connections.exchange([("TIME",), asked])
            now = int(seconds) + int(micros) / 1e6
            for entry, score in zip(listed[::2], listed[1::2], strict=True):
                if (group := group_in(text(entry), job_class)) is None:
                    continue
                if float(score) > now:
                    return DueGroups(found[passed:], float(score) - now)
                if len(found) == passed + limit:
                    return DueGroups(found[passed:], 0.0)
                found.append(group)
            if len(listed) < 2 * count:
                return DueGroups(found[passed:], None)
            start += count

    def flush(self, group: Group, into: Group, payload: bytes) -> int:
        keys = [*self._four(group), members_key(self._keys, into), self._keys.queues, self._keys.queue(group.queue)]
        keys[1] = members_key(self._keys, group.open)
        arguments = (entry_of(group), entry_of(into), group.job_class, group.queue, payload)
        return int(self._connections.script(_FLUSH, keys, arguments))

    def members(self, group: Group, first: int, count: int) -> list[bytes]:
        key = members_key(self._keys, group)
        pieces = ranges(first, count, lambda: int(self._connections.call("LLEN", key)))
        listed = self._connections.exchange([("LRANGE", key, *piece) for piece in pieces])
        return [member for piece in listed for member in piece]

    def _four(self, group: Group) -> tuple[str, str, str, str]:
        """The keys with which most scripts begin."""
        keys = self._keys
        groups = groups_of_key(keys, group.job_class)
        return group_key(keys, group), members_key(keys, group), groups, groups_key(keys)

    # --- for people

    def entries(self, job_class: str = "") -> Iterator[GroupEntry]:
        listed = self._listed([job_class] if job_class else self._classes())
        while page := [*itertools.islice(listed, PAGE)]:
            yield from self._read(page)

    def _classes(self) -> list[str]:
        return sorted(map(text, self._connections.call("SMEMBERS", groups_key(self._keys))))

    def _listed(self, classes: Sequence[str]) -> Iterator[tuple[str, str, float]]:
        """The class, the entry and the time of each group. Most classes have few: the first pages are read at once."""
        for at in range(0, len(classes), CLASSES):
            some = classes[at : at + CLASSES]
            for job_class, page in zip(
                some, self._connections.exchange([self._page(job_class) for job_class in some]), strict=True
            ):
                yield from self._listed_of(job_class, page)

    def _listed_of(self, job_class: str, page: Sequence[bytes]) -> Iterator[tuple[str, str, float]]:
        start, known = 0, set[str]()
        while page:
            # Groups that are flushed meanwhile leave: the next page begins earlier, and may show some again.
            start += len(page) // 2
            found = [(text(entry), float(due)) for entry, due in zip(page[::2], page[1::2], strict=True)]
            yield from ((job_class, entry, due) for entry, due in found if entry not in known)
            if len(found) < PAGE:
                break
            known.update(entry for entry, _ in found)
            page = self._connections.call(*self._page(job_class, start))

    def _page(self, job_class: str, start: int = 0) -> tuple[str | int, ...]:
        key = groups_of_key(self._keys, job_class)
        return "ZRANGEBYSCORE", key, "-inf", "inf", "WITHSCORES", "LIMIT", start, PAGE

    def _read(self, listed: Iterable[tuple[str, str, float]]) -> Iterator[GroupEntry]:
        groups = [(group, due) for job_class, entry, due in listed if (group := group_in(entry, job_class)) is not None]
        commands: list[tuple[str, ...]] = []
        for group, _ in groups:
            commands += [("LLEN", members_key(self._keys, group)), ("HMGET", group_key(self._keys, group), *_FIELDS)]
        replies = self._connections.answers(commands)
        for (group, due), size, fields in zip(groups, replies[::2], replies[1::2], strict=True):
            yield _entry(group, due, size or 0, fields or [None] * len(_FIELDS))

    def entry(self, group: Group) -> GroupEntry | None:
        entry, key = entry_of(group), groups_of_key(self._keys, group.job_class)
        [score] = self._connections.call("ZMSCORE", key, entry)
        return None if score is None else next(self._read([(group.job_class, entry, float(score))]), None)

    def make_due(self, group: Group) -> bool:
        seconds, size = self._connections.exchange([("TIME",), ("LLEN", members_key(self._keys, group))])
        if not size:
            return False
        # A group that was flushed just now has no entry any more, and gets none.
        key = groups_of_key(self._keys, group.job_class)
        self._connections.call("ZADD", key, "XX", int(seconds[0]), entry_of(group))
        return True

    def configure(self, group: Group, own: OwnSettings) -> None:
        values = ("" if value is None else value for value in own)
        self._connections.script(_CONFIGURE, self._four(group), (entry_of(group), group.job_class, *values))

    def delete(self, group: Group) -> int:
        deleted = 0
        while members := self.members(group, 0, PAGE):
            deleted += sum(self._leave(group, members, "deleted"))
        return deleted

    def take_out(self, group: Group, member: bytes, reason: str) -> bool:
        return bool(self._leave(group, [member], reason)[0])

    def _leave(self, group: Group, members: Sequence[bytes], reason: str) -> list[int]:
        jobs, arguments = MovedJobs(self._keys), list[Argument]()
        for member in members:
            arguments += (member, *jobs.effects(member, "cancelled", reason))
        fixed = (entry_of(group), group.job_class, int(bool(group.set)))
        keys = (*self._four(group), self._keys.queues, self._keys.nothing, *jobs.names)
        answer: list[int] = self._connections.script(_LEAVE, keys, (*fixed, *arguments))
        return answer


def _entry(group: Group, due: float, size: int, fields: Sequence[Any]) -> GroupEntry:
    first, grace, delay, most, *own = (None if field is None else as_number(field) for field in fields)
    due_at = None if math.isinf(due) else due
    if group.set:
        return GroupEntry(group, size, due=due_at)
    own_size = None if own[2] is None else int(own[2])
    said = GroupSettings() if grace is None else GroupSettings(grace, delay or 0.0, int(most or 0))
    set_by_people = OwnSettings(own[0], own[1], own_size)
    return GroupEntry(group, size, set_by_people.over(said), set_by_people, first, due_at)
