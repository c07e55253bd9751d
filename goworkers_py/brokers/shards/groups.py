"""Groups of jobs, each on the home of its name, with its members and its sets."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.brokers.contracts.groups import Groups
from goworkers_py.brokers.shards.placement import key_of_group
from goworkers_py.brokers.shards.shard_list import ShardList, T, Verb
from goworkers_py.core.group import DueGroups, Group, GroupEntry, OwnSettings


class ShardedGroups(Groups):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def due(self, job_class: str, limit: int, passed: int = 0) -> DueGroups:
        told = self._shards.answers(lambda broker: broker.groups.due(job_class, passed + limit))
        found = [group for one in told for group in one.groups]
        if len(found) > passed + limit:
            return DueGroups(found[passed : passed + limit], 0.0)
        waits = [one.next_in_s for one in told if one.next_in_s is not None]
        return DueGroups(found[passed:], min(waits, default=None))

    def flush(self, group: Group, into: Group, payload: bytes) -> int:
        return self._at_home(group, lambda broker: broker.groups.flush(group, into, payload))

    def members(self, group: Group, first: int, count: int) -> list[bytes]:
        return self._at_home(group, lambda broker: broker.groups.members(group, first, count))

    # --- for people

    def entries(self, job_class: str = "") -> Iterator[GroupEntry]:
        return self._shards.steps(lambda broker: broker.groups.entries(job_class))

    def entry(self, group: Group) -> GroupEntry | None:
        return self._at_home(group, lambda broker: broker.groups.entry(group))

    def make_due(self, group: Group) -> bool:
        return self._at_home(group, lambda broker: broker.groups.make_due(group))

    def configure(self, group: Group, own: OwnSettings) -> None:
        self._at_home(group, lambda broker: broker.groups.configure(group, own))

    def delete(self, group: Group) -> int:
        return self._at_home(group, lambda broker: broker.groups.delete(group))

    def take_out(self, group: Group, member: bytes, reason: str) -> bool:
        return self._at_home(group, lambda broker: broker.groups.take_out(group, member, reason))

    def _at_home(self, group: Group, verb: Verb[T]) -> T:
        return self._shards.at_home(key_of_group(group), f"the group {group.name}", verb)
