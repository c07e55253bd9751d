"""The groups of the memory broker, for the threads that flush them, and for people."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.brokers.memory.parts import MemoryMoved
from goworkers_py.brokers.memory.state import State
from goworkers_py.features.groups import contract as groups
from goworkers_py.features.groups.group import DueGroups, Group, GroupEntry, OwnSettings


class MemoryGroups(groups.Groups):
    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.groups

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
