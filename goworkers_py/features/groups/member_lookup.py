"""Finds one job among the members of groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from goworkers_py.brokers.broker import Broker
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupEntry
from goworkers_py.wire.stored_job import StoredJob

# Members that are looked at when a job is searched, the most groups of them, and the members that are read in one step.
MOST_SEARCHED, MOST_GROUPS, PAGE = 10_000, 10_000, 500


class MemberLookup:
    def __init__(self, broker: Broker) -> None:
        self._groups = broker.part(Groups)

    def find(self, jid: str, of: Group | None = None) -> tuple[Group, StoredJob] | None:
        """A member of any group or set; with `of`, only of this open group and its sets. Of a great many groups, some
        are not looked at."""
        wanted = jid.encode("utf-8", "replace")
        for group, raw in self._members(of):
            job = StoredJob(raw, group.queue)
            if wanted in raw and job.jid == jid:
                return group, job
        return None

    def is_complete(self) -> bool:
        """Whether `find` looks at every member."""
        entries = [] if self._groups is None else [*itertools.islice(self._groups.entries(), MOST_GROUPS + 1)]
        return len(entries) <= MOST_GROUPS and sum(entry.size for entry in entries) <= MOST_SEARCHED

    def _members(self, of: Group | None) -> Iterator[tuple[Group, bytes]]:
        if self._groups is None:
            return
        looked_at = 0
        for entry in self._all(self._groups) if of is None else self._of(self._groups, of):
            for first in range(0, entry.size, PAGE):
                page = self._groups.members(entry.group, first, PAGE)
                yield from ((entry.group, raw) for raw in page)
                looked_at += len(page)
                if looked_at >= MOST_SEARCHED and of is None:
                    return

    def _all(self, groups: Groups) -> Iterable[GroupEntry]:
        return [*itertools.islice(groups.entries(), MOST_GROUPS)]

    def _of(self, groups: Groups, group: Group) -> Iterator[GroupEntry]:
        """The open group first: only its sets have to be found among all groups of the class."""
        if (entry := groups.entry(group)) is not None:
            yield entry
        for entry in [*itertools.islice(groups.entries(group.job_class), MOST_GROUPS)]:
            if entry.group != group and entry.group.open == group:
                yield entry

    def take_out(self, jid: str, reason: str) -> StoredJob | None:
        """Deletes a job from its open group. A set may be in work: its members are not taken out."""
        found = self.find(jid)
        if found is None or self._groups is None or found[0].set:
            return None
        group, job = found
        return job if self._groups.take_out(group, job.payload, reason) else None
