"""The groups in the state of a memory broker, and the part of the broker for them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import field
from functools import partial

from goworkers_py.brokers.memory.parts import ApplyEffects, Decision, MemoryMoved, MemoryPart, TieInMemory
from goworkers_py.brokers.memory.published_push import PUSHED, PublishedPush
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.effects import EndMember, EndSet
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


class GroupTable(MemoryPart):
    """The groups in the state. Used under its lock."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._open: dict[Group, _Open] = {}
        self._sets: dict[Group, _Set] = {}
        self.ties = {GroupMembership: TieInMemory(self._decide, lambda tie, published: None, of_queue=True)}
        self.enclosing = {EndSet: self._end_set, EndMember: self._end_member}

    def _decide(self, tie: GroupMembership, published: PublishedPush) -> Decision:
        published.group = tie.group.name
        return Decision(PUSHED, partial(self.join, published.number, tie, published.push.payload))

    def _end_set(self, effect: EndSet, apply: ApplyEffects) -> None:
        if effect.group in self._sets:
            apply(effect.effects)
            ended = self._sets.pop(effect.group)
            if effect.into is not None:
                self._sets[effect.into] = _Set(ended.members)

    def _end_member(self, effect: EndMember, apply: ApplyEffects) -> None:
        if self.take_out(effect.group, effect.member):
            apply(effect.effects)

    def join(self, number: int, member: GroupMembership, payload: bytes) -> None:
        """Called again for the same number, it changes nothing."""
        group = self._open.setdefault(member.group, _Open())
        if number not in group.members:
            group.members[number] = MemoryMember(self._state.clock(), payload)
            group.said = member.settings

    def due(self, job_class: str, limit: int, passed: int) -> DueGroups:
        now = self._state.clock()
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
        now = self._state.clock()
        if group.set:
            waiting = self._sets.get(group)
            if waiting is None or waiting.due is None or waiting.due > now:
                return 0
            waiting.due = None
            return len(waiting.members)
        found = self._open.get(group)
        if found is None or found.due is None or found.due > now:
            return 0
        most = found.settings.max_size or len(found.members)
        numbers = [*itertools.islice(found.members, most)]
        self._sets[into] = _Set([found.members.pop(number).payload for number in numbers])
        found.asked = None
        self._forget(group)
        return len(numbers)

    def _forget(self, group: Group) -> None:
        found = self._open.get(group)
        if found is not None and not found.members and found.own == NO_OWN_SETTINGS:
            del self._open[group]

    def members(self, group: Group) -> list[bytes]:
        if group.set:
            return list(self._sets[group].members) if group in self._sets else []
        found = self._open.get(group, _Open())
        return [member.payload for member in found.members.values()]

    # --- for people

    def entries(self) -> Iterator[GroupEntry]:
        for group, found in self._open.items():
            first = found.times[0] if found.members else None
            yield GroupEntry(group, len(found.members), found.settings, found.own, first, found.due)
        for group, waiting in self._sets.items():
            yield GroupEntry(group, len(waiting.members), due=waiting.due)

    def make_due(self, group: Group) -> bool:
        if not self.members(group):
            return False
        if group.set:
            self._sets[group].due = self._state.clock()
        else:
            self._open[group].asked = self._state.clock()
        return True

    def configure(self, group: Group, own: OwnSettings) -> None:
        self._open.setdefault(group, _Open()).own = own
        self._forget(group)

    def take_out(self, group: Group, payload: bytes) -> bool:
        if payload not in self.members(group):
            return False
        if group.set:
            self._sets[group].members.remove(payload)
            if not self._sets[group].members:
                del self._sets[group]
            return True
        members = self._open[group].members
        del members[next(number for number, member in members.items() if member.payload == payload)]
        self._forget(group)
        return True


class MemoryGroups(Groups):
    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.part(GroupTable)

    def due(self, job_class: str, limit: int, passed: int = 0) -> DueGroups:
        with self._state.lock:
            self._state.sort_in()
            return self._table.due(job_class, limit, passed)

    def flush(self, group: Group, into: Group, payload: bytes) -> int:
        with self._state.lock:
            self._state.sort_in()
            if size := self._table.flush(group, into):
                self._state.put(group.queue, payload)
            return size

    def members(self, group: Group, first: int, count: int) -> list[bytes]:
        with self._state.lock:
            self._state.sort_in()
            return self._table.members(group)[first : first + count]

    def entries(self, job_class: str = "") -> Iterator[GroupEntry]:
        with self._state.lock:
            self._state.sort_in()
            found = [*self._table.entries()]
        return (entry for entry in found if job_class in ("", entry.group.job_class))

    def entry(self, group: Group) -> GroupEntry | None:
        return next((entry for entry in self.entries() if entry.group == group), None)

    def make_due(self, group: Group) -> bool:
        with self._state.lock:
            self._state.sort_in()
            return self._table.make_due(group)

    def configure(self, group: Group, own: OwnSettings) -> None:
        with self._state.lock:
            self._table.configure(group, own)

    def delete(self, group: Group) -> int:
        members = self.members(group, 0, 1_000_000_000)
        return sum(self.take_out(group, member, "deleted") for member in members)

    def take_out(self, group: Group, member: bytes, reason: str) -> bool:
        with self._state.lock:
            self._state.sort_in()
            if taken := self._table.take_out(group, member):
                self._state.moved(MemoryMoved(member, "cancelled", reason, may_be_dead=False))
            return taken
