"""Groups, for people: shows their members, flushes them, and gives them settings of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from goworkers_py.admin.job_lookup import BETWEEN_LOOKS_S, MOST_SEARCHED
from goworkers_py.admin.missing_jobs import all_jobs, jobs_in
from goworkers_py.admin.places import DEAD
from goworkers_py.admin.verbs import Verbs
from goworkers_py.core import machine
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import Group, GroupEntry, OwnSettings
from goworkers_py.features.groups.payload import set_in
from goworkers_py.wire.stored_job import StoredJob


class GroupVerbs(Verbs):
    @property
    def _groups(self) -> Groups:
        return self._broker.require_part(Groups)

    def groups(self, job_class: str = "") -> Iterator[GroupEntry]:
        """The groups and the sets of a class, or of all: `[one.size for one in inspector.groups("Invoice")]`. A set
        has members that are aggregated together; `due` is None when its job was pushed."""
        return self._groups.entries(job_class)

    def group(self, group: Group) -> GroupEntry | None:
        """One of them: `inspector.group(Group("billing", "Invoice", "user:7"))`; None if it has no members and no
        settings of its own."""
        return self._groups.entry(group)

    def members(self, group: Group, limit: int = 50) -> list[StoredJob]:
        """The members of a group or a set that joined first: `inspector.members(group)`."""
        return [StoredJob(raw, group.queue) for raw in self._groups.members(group, 0, limit)]

    def flush_group(self, group: Group) -> bool:
        """`inspector.flush_group(group)`: it is aggregated at once. Of a set, another aggregation job is pushed: its
        first one may have been deleted. Returns False if there are no members."""
        return self._groups.make_due(group)

    def set_group(self, group: Group, own: OwnSettings) -> None:
        """`inspector.set_group(group, OwnSettings(max_size=100))` gives a group settings of its own, in place of those
        that it has. They last until `OwnSettings()` takes them away."""
        self._groups.configure(group, own)

    def delete_group(self, group: Group) -> int:
        """`inspector.delete_group(group)` deletes the members. Returns how many."""
        return self._groups.delete(group)

    def sets_without_job(self, sets: Sequence[Group]) -> list[Group]:
        """Finds the sets whose aggregation job is in no place, as far as 10,000 jobs of each place show. A job that
        another program moves is in no place for a moment, so each job is looked for twice."""
        missing = self._unseen(sets)
        if missing:
            machine.Event().wait(BETWEEN_LOOKS_S)
            missing = self._unseen(missing)
        # A set that was aggregated meanwhile has no members any more.
        return [group for group in missing if self._groups.members(group, 0, 1)]

    def _unseen(self, sets: Sequence[Group]) -> list[Group]:
        admin, missing = self._broker.admin, {group.set: group for group in sets}
        places = itertools.chain(all_jobs(admin, parked=True), (jobs_in(admin, DEAD),)) if missing else ()
        for job in itertools.chain.from_iterable(itertools.islice(jobs, MOST_SEARCHED) for jobs in places):
            missing.pop(set_in(job.payload), None)
        return [*missing.values()]
