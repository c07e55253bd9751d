"""The doctor's check of locks: those whose process is dead."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator

from goworkers_py.admin.inspector import Inspector
from goworkers_py.brokers.contracts.admin import Advice
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import LockEntry

# Locks of which the holders are looked at.
MOST_LOCKS = 1_000


def lock_findings(inspector: Inspector) -> Iterator[Advice]:
    """Only where an owner has died: to find all locks reads every name on the server."""
    if not inspector.has(Locks) or all(owner.alive for owner in inspector.owners()):
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
