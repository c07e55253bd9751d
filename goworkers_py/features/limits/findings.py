"""The doctor's check of limits: lines that nobody empties, and places whose holder is dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from goworkers_py.admin.doctor import NOTE, PROBLEM, SAMPLE, fetched_queues, start_for
from goworkers_py.admin.filter import counted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.places import PARKED
from goworkers_py.brokers.contracts.admin import Advice
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.limits.limit import Slot, slot_of_line
from goworkers_py.wire.stored_job import StoredJob

# Slots of which the holders are looked at.
MOST_SLOTS = 100


def limit_findings(inspector: Inspector) -> Iterator[Advice]:
    waiting = [job for job in inspector.first(PARKED, SAMPLE) if slot_of_line(job.line) is not None]
    fetched = fetched_queues(inspector) if waiting else set()
    alone = Counter((job.line.split(":")[1], job.queue) for job in waiting if job.queue not in fetched)
    for (limit, queue), count in alone.items():
        what = f"limit {limit}: {counted(count)} of queue {queue} wait, but no live process fetches from it"
        yield Advice(PROBLEM, what, f"{start_for(queue)}; it lets the next jobs go")
    stopped = {entry.name for entry in inspector.limits() if entry.set_concurrent == 0} if waiting else set()
    for limit in sorted(stopped & {job.line.split(":")[1] for job in waiting}):
        what = f"limit {limit}: set to 0 by hand, and jobs wait for it"
        yield Advice(NOTE, what, f"let them go: pyworkers limits unset {limit}")
    yield from _dead_holders(inspector, waiting)


def _dead_holders(inspector: Inspector, waiting: Sequence[StoredJob]) -> Iterator[Advice]:
    """`waiting`: jobs in the lines of limits. Looks at their slots, and at the one slot of each limit without keys: to
    find all keys would read every name on the server."""
    if not inspector.has(Limits):
        return
    declared = [Slot(limit.name) for limit in inspector.limits()]
    if declared:
        yield from _by_lease(inspector)
    behind = Counter(slot for job in waiting if (slot := slot_of_line(job.line)) is not None)
    slots = [*dict.fromkeys((*behind, *declared))][:MOST_SLOTS]
    held = {slot: inspector.places(slot) for slot in slots}
    dead = inspector.dead_holders({holder.owner for holders in held.values() for holder in holders} - {""})
    for slot, holders in held.items():
        for holder in holders:
            if holder.owner not in dead:
                continue
            what = f"limit {slot.id}: {holder.jid} has a place, and its process {holder.owner} is dead or unknown"
            if behind[slot]:
                what += f"; {counted(behind[slot])} wait behind it"
            todo = "a process whose code has this limit frees it within a minute: start one, or look at their logs"
            yield Advice(bool(behind[slot]), what, todo)


def _by_lease(inspector: Inspector) -> Iterator[Advice]:
    knowing = (owner for owner in inspector.owners() if owner.alive and "limits" in owner.speaks)
    old = [owner.identity for owner in knowing if owner.frees_by_lease]
    if old:
        what = f"{counted(len(old), 'process', 'processes')} of an earlier build, such as {old[0]}, free the places of "
        what += "limits when a lease is missing: an outage may exceed a limit"
        yield Advice(False, what, "upgrade them: limits hold after an outage only when all processes are new")
