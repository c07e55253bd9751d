"""Finds one job among the members of groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from goworkers_py.admin.job_status import JobStatus, as_seen
from goworkers_py.admin.own_places import OwnPlaces
from goworkers_py.brokers.broker import Broker
from goworkers_py.core.job_state import StateWord
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupEntry
from goworkers_py.features.parts import Whereabouts
from goworkers_py.wire.job_record import JobRecord
from goworkers_py.wire.stored_job import StoredJob

# Members that are looked at when a job is searched, the most groups of them, and the members that are read in one step.
MOST_SEARCHED, MOST_GROUPS, PAGE = 10_000, 10_000, 500


class MemberLookup(OwnPlaces):
    states: tuple[StateWord, ...] = ("grouped",)

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def find(self, jid: str) -> JobStatus | None:
        """Of a great many groups, some are not looked at."""
        found = self._found(jid)
        if found is None:
            return None
        group, job = found
        return replace(as_seen(job, "grouped", group.queue), group=group.name)

    def is_complete(self) -> bool:
        entries = [*itertools.islice(self._groups.entries(), MOST_GROUPS + 1)]
        return len(entries) <= MOST_GROUPS and sum(entry.size for entry in entries) <= MOST_SEARCHED

    def holds(self, record: JobRecord) -> bool:
        """Looks at the open group and at all its sets."""
        return self._found(record.jid, Group(record.queue, record.job_class, record.group)) is not None

    def take_out(self, jid: str, reason: str) -> StoredJob | None:
        """From its open group. A set may be in work: its members are not taken out."""
        found = self._found(jid)
        if found is None or found[0].set:
            return None
        group, job = found
        return job if self._groups.take_out(group, job.payload, reason) else None

    def waiting(self) -> Iterator[StoredJob]:
        for entry in [*self._groups.entries()]:
            if not entry.group.set:
                members = self._groups.members(entry.group, 0, entry.size)
                yield from (StoredJob(raw, entry.group.queue) for raw in members)

    def _found(self, jid: str, of: Group | None = None) -> tuple[Group, StoredJob] | None:
        wanted = jid.encode("utf-8", "replace")
        for group, raw in self._members(of):
            job = StoredJob(raw, group.queue)
            if wanted in raw and job.jid == jid:
                return group, job
        return None

    def _members(self, of: Group | None) -> Iterator[tuple[Group, bytes]]:
        looked_at = 0
        for entry in self._all() if of is None else self._of(of):
            for first in range(0, entry.size, PAGE):
                page = self._groups.members(entry.group, first, PAGE)
                yield from ((entry.group, raw) for raw in page)
                looked_at += len(page)
                if looked_at >= MOST_SEARCHED and of is None:
                    return

    def _all(self) -> Iterable[GroupEntry]:
        return [*itertools.islice(self._groups.entries(), MOST_GROUPS)]

    def _of(self, group: Group) -> Iterator[GroupEntry]:
        """The open group first: only its sets have to be found among all groups of the class."""
        if (entry := self._groups.entry(group)) is not None:
            yield entry
        for entry in [*itertools.islice(self._groups.entries(group.job_class), MOST_GROUPS)]:
            if entry.group != group and entry.group.open == group:
                yield entry


def _places(broker: Broker) -> MemberLookup | None:
    groups = broker.part(Groups)
    return None if groups is None else MemberLookup(groups)


WHEREABOUTS = Whereabouts(places=_places)
