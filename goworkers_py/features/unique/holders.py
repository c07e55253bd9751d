"""Tells whether the jobs that hold locks are still there. Another program may have deleted one, which frees no lock.

Each job is looked for in the place where it was last. One that is not there has mostly ended just now, and then it
holds its lock no more. The others are searched for, all of them at once. `missing_jobs` does the same for limits.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence

from goworkers_py.admin.job_lookup import BETWEEN_LOOKS_S, MOST_SEARCHED, JobLookup, is_job
from goworkers_py.admin.job_status import JobStatus
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core import machine
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.holder import Holder
from goworkers_py.core.job_state import StateWord
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import LockClaim
from goworkers_py.wire.stored_job import StoredJob

log = logging.getLogger(__name__)

# A holder that was seen is not looked for again for so many times as long as that took.
REST = 10
MOST_SEEN = 1_000


class LockHolders:
    """Threads share it: each change of `_seen` is one step, and a holder that is looked for twice does no harm."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lookup = JobLookup(broker) if Capability.ADMIN in broker.capabilities else None
        self._seen: dict[str, float] = {}  # by jid, the monotonic time until which its job counts as seen

    def is_gone(self, lock: str, holder: Holder) -> bool:
        return bool(self.gone([(lock, holder)]))

    def past(self, push: Push, holder: Holder) -> Push:
        """The push with a claim that ignores `holder`, if the job of `holder` is in no place any more. Else the push
        as it is."""
        lock = push.tie(LockClaim)
        if lock is None or not self.is_gone(lock.name, holder):
            return push
        return push.with_tie(lock._replace(instead_of=holder.jid))

    def gone(self, held: Sequence[tuple[str, Holder]]) -> set[str]:
        """The names of those of these locks whose holders have ended, or are in no place. A search that cannot look at
        all places finds a job there, also where the access rules do not allow to look, as for a producer."""
        try:
            return self._gone(held)
        except BrokerRefused as error:
            log.debug("not looked whether the holders of locks are gone: %s", error)
            return set()

    def _gone(self, held: Sequence[tuple[str, Holder]]) -> set[str]:
        began = machine.monotonic()
        asked = {lock: holder for lock, holder in held if holder.jid and self._seen.get(holder.jid, 0.0) <= began}
        if self._lookup is None or not asked:
            return set()
        lost = {lock: holder.jid for lock, holder in asked.items() if not self._is_near(self._lookup, holder)}
        gone = {lock for lock, jid in lost.items() if not self._is_held(lock, jid)}
        absent = self._absent(self._lookup, {jid for lock, jid in lost.items() if lock not in gone})
        gone |= {lock for lock, jid in lost.items() if jid in absent}
        if len(self._seen) >= MOST_SEEN:
            self._seen = {}
        ended = machine.monotonic()
        rest_s = REST * (ended - began) / len(asked)
        self._seen.update((holder.jid, ended + rest_s) for lock, holder in asked.items() if lock not in gone)
        return gone

    def _is_held(self, lock: str, jid: str) -> bool:
        """Whether the job has the lock still. It loses it in the step in which it ends."""
        entry = self._broker.require_part(Locks).entry(lock)
        return entry is not None and entry.holder.jid == jid

    def _absent(self, lookup: JobLookup, jids: set[str]) -> set[str]:
        """A job that another program moves is in no place for a moment, so each is looked for twice."""
        absent = lookup.absent(jids)
        if absent:
            machine.Event().wait(BETWEEN_LOOKS_S)
            absent = lookup.absent(absent)
        return absent

    def _is_near(self, lookup: JobLookup, holder: Holder) -> bool:
        """Whether the job is where it was when it got the lock, or is in progress in that queue."""
        due: tuple[StateWord, ...] = ("scheduled", "retry") if holder.due is not None else ()
        places = [JobStatus(holder.jid, state, False, False, due=holder.due) for state in due]
        places.append(JobStatus(holder.jid, "waiting", False, False, queue=holder.queue, since=holder.at))
        near = (job for place in places for _, _, job in lookup.seen_at(place, place.due))
        return any(is_job(job, holder.jid) for job in itertools.chain(near, self._held(holder.queue)))

    def _held(self, queue: str) -> Iterator[StoredJob]:
        return (held.job for held in itertools.islice(self._broker.admin.in_progress(queue), MOST_SEARCHED))
