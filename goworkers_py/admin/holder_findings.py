"""The doctor's checks of what holders keep from others: places in limits and locks whose holder is dead, and processes
that take a missing lease for a death."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from goworkers_py.admin.filter import counted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.admin import Advice
from goworkers_py.features.limits.limit import Slot, slot_of_line
from goworkers_py.features.unique.lock import LockEntry
from goworkers_py.wire.stored_job import StoredJob

# Slots and locks of which the holders are looked at.
MOST_SLOTS, MOST_LOCKS = 100, 1_000


def place_findings(inspector: Inspector, waiting: Sequence[StoredJob]) -> Iterator[Advice]:
    """`waiting`: jobs in the lines of limits. Looks at their slots, and at the one slot of each limit without keys: to
    find all keys would read every name on the server."""
    if not inspector.has(Capability.LIMITS):
        return
    declared = [Slot(one.name) for one in inspector.limits()]
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
    old = [owner.identity for owner in inspector.owners() if owner.alive and owner.frees_by_lease]
    if old:
        what = f"{counted(len(old), 'process', 'processes')} of an earlier build, such as {old[0]}, free the places of "
        what += "limits when a lease is missing: an outage may exceed a limit"
        yield Advice(False, what, "upgrade them: limits hold after an outage only when all processes are new")


def lock_findings(inspector: Inspector) -> Iterator[Advice]:
    """Only where an owner has died: to find all locks reads every name on the server."""
    if not inspector.has(Capability.LOCKS) or all(owner.alive for owner in inspector.owners()):
        return
    locks = [lock for lock in itertools.islice(inspector.locks(), MOST_LOCKS) if lock.owner]
    dead = inspector.dead_holders({lock.owner for lock in locks})
    for lock in locks:
        if lock.owner in dead:
            yield _of_dead(lock)


def _of_dead(lock: LockEntry) -> Advice:
    what = f"lock {lock.name}: its process {lock.owner} is dead or unknown, and job {lock.holder.jid} holds it"
    free = f"pyworkers locks free {shlex.quote(lock.name)}"
    todo = f"the next push that meets it frees it if its job is gone; by hand: {free}"
    return Advice(False, what, todo)
