"""The groups in the state of a memory broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import field

from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.features.groups.group import (
    DEFAULT_SETTINGS,
    NO_OWN_SETTINGS,
    DueGroups,
    Group,
    GroupEntry,
    GroupMembership,
    GroupSettings,
    OwnSettings,
)


class MemoryMember(NamedTuple):
    at: float  # when it joined
    payload: bytes


@dataclass(slots=True)
class _Open:
    """A group that takes members. One with more than its `max_size` is due; its first members are flushed then."""

    said: GroupSettings = DEFAULT_SETTINGS  # by its last push
    own: OwnSettings = NO_OWN_SETTINGS
    members: dict[int, MemoryMember] = field(default_factory=dict)  # by number, in the order in which they joined
    asked: float | None = None  # since then people want it to be flushed

    @property
    def settings(self) -> GroupSettings:
        return self.own.over(self.said)

    @property
    def times(self) -> list[float]:
        return [member.at for member in self.members.values()]

    @property
    def due(self) -> float | None:
        if not self.members:
            return None
        times = self.times
        due = self.settings.due(times[0], times[-1], len(times))
        return due if self.asked is None else min(due, self.asked)


@dataclass(slots=True)
class _Set:
    members: list[bytes]
    due: float | None = None  # None: its aggregation job was pushed


class GroupTable:
    """Used under the lock of the state."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[Group, _Open] = {}
        self.sets: dict[Group, _Set] = {}

    def join(self, number: int, member: GroupMembership, payload: bytes) -> None:
        """Called again for the same number, it changes nothing."""
        group = self._open.setdefault(member.group, _Open())
        if number not in group.members:
            group.members[number] = MemoryMember(self._clock(), payload)
            group.said = member.settings

    def due(self, job_class: str, limit: int, passed: int) -> DueGroups:
        now = self._clock()
        waiting = sorted(
            (entry.due, entry.group)
            for entry in self.entries()
            if entry.due is not None and entry.group.job_class == job_class
        )
        due = [group for at, group in waiting if at <= now][passed:]
        later = [at - now for at, _ in waiting if at > now]
        return DueGroups(due[:limit], 0.0 if len(due) > limit else min(later, default=None))

    def flush(self, group: Group, into: Group) -> int:
        """How many members the set has; 0 when the group is not due."""
        now = self._clock()
        if group.set:
            waiting = self.sets.get(group)
            if waiting is None or waiting.due is None or waiting.due > now:
                return 0
            waiting.due = None
            return len(waiting.members)
        found = self._open.get(group)
        if found is None or found.due is None or found.due > now:
            return 0
        most = found.settings.max_size or len(found.members)
        numbers = [*itertools.islice(found.members, most)]
        self.sets[into] = _Set([found.members.pop(number).payload for number in numbers])
        found.asked = None
        self._forget(group)
        return len(numbers)

    def has_set(self, group: Group) -> bool:
        return group in self.sets

    def end_set(self, group: Group, into: Group | None = None) -> None:
        """Its members go on in the set `into`, if that is given."""
        ended = self.sets.pop(group, None)
        if ended is not None and into is not None:
            self.sets[into] = _Set(ended.members)

    def _forget(self, group: Group) -> None:
        found = self._open.get(group)
        if found is not None and not found.members and found.own == NO_OWN_SETTINGS:
            del self._open[group]

    def members(self, group: Group) -> list[bytes]:
        if group.set:
            return list(self.sets[group].members) if group in self.sets else []
        found = self._open.get(group, _Open())
        return [member.payload for member in found.members.values()]

    # --- for people

    def entries(self) -> Iterator[GroupEntry]:
        for group, found in self._open.items():
            first = found.times[0] if found.members else None
            yield GroupEntry(group, len(found.members), found.settings, found.own, first, found.due)
        for group, waiting in self.sets.items():
            yield GroupEntry(group, len(waiting.members), due=waiting.due)

    def make_due(self, group: Group) -> bool:
        if not self.members(group):
            return False
        if group.set:
            self.sets[group].due = self._clock()
        else:
            self._open[group].asked = self._clock()
        return True

    def configure(self, group: Group, own: OwnSettings) -> None:
        self._open.setdefault(group, _Open()).own = own
        self._forget(group)

    def take_out(self, group: Group, payload: bytes) -> bool:
        if payload not in self.members(group):
            return False
        if group.set:
            self.sets[group].members.remove(payload)
            if not self.sets[group].members:
                del self.sets[group]
            return True
        members = self._open[group].members
        del members[next(number for number, member in members.items() if member.payload == payload)]
        self._forget(group)
        return True
