"""The doctor's check of groups: those that nobody aggregates, and sets whose job is gone."""

from __future__ import annotations

import itertools
import shlex
from collections import defaultdict
from collections.abc import Iterator

from goworkers_py.admin.filter import counted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.contracts.admin import Advice
from goworkers_py.features.groups.aggregates import aggregated_in
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.groups.group import MOST_FOR_FIGURES, Group, GroupEntry
from goworkers_py.policy.our_work import OurWork

# A group that is due for longer is flushed by no process.
LONG_DUE_S = 60
# Sets whose aggregation jobs are looked for: each look may read many jobs.
MOST_LOOKS = 10


def group_findings(inspector: Inspector, work: OurWork | None) -> Iterator[Advice]:
    aggregated = {spec.name for spec in aggregated_in(work.registry)} if work is not None else set()
    if not inspector.has(Groups):
        return
    overdue: defaultdict[str, list[GroupEntry]] = defaultdict(list)
    sets, now = list[Group](), inspector.now()
    for entry in itertools.islice(inspector.groups(), MOST_FOR_FIGURES):
        if entry.due is not None and now - entry.due > LONG_DUE_S:
            overdue[entry.group.job_class].append(entry)
        elif entry.group.set and entry.due is None:
            sets.append(entry.group)
    for job_class, entries in overdue.items():
        size = sum(entry.size for entry in entries)
        what = f"{counted(len(entries), 'group', 'groups')} of class {job_class} with {counted(size)} "
        what += "is overdue" if len(entries) == 1 else "are overdue"
        name = job_class if job_class.isidentifier() else "NAME"
        todo = f"start a process whose code has its @{name}.aggregate"
        todo = "start a process that runs this code" if job_class in aggregated else todo
        yield Advice(True, what, todo)
    for group in inspector.sets_without_job(sets[:MOST_LOOKS]):
        where = f"{shlex.quote(group.job_class)} {shlex.quote(group.name)} --queue {shlex.quote(group.queue)}"
        what = f"the job that aggregates the set {group.set} of group {group.name} is in no place any more"
        yield Advice(True, what, f"to push it again: pyworkers groups flush {where} --set {group.set}")
