"""Tells whether the job that holds a lock is still there. Another program may have deleted it, which frees no lock.

This asks for one job, by the place where it was last, by its record, or by a search for its bytes. `missing_jobs` asks
for many jobs at once, and reads every job for that.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from goworkers_py.admin.job_lookup import MOST_SEARCHED, JobLookup, is_job
from goworkers_py.admin.job_status import JobStatus
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.job_state import ENDED, StateWord
from goworkers_py.core.lock import Holder
from goworkers_py.wire.stored_job import StoredJob

# A holder that was seen is not looked for again for so many times as long as that took.
REST = 10
MOST_SEEN = 1_000


class LockHolders:
    """Threads share it: each change of `_seen` is one step, and a holder that is looked for twice does no harm."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lookup = JobLookup(broker) if Capability.ADMIN in broker.capabilities else None
        self._seen: dict[str, float] = {}  # by jid, the monotonic time until which its job counts as seen

    def is_gone(self, holder: Holder) -> bool:
        """Whether the job has ended, or is in no place. A search that cannot look at all places finds it there."""
        began = time.monotonic()
        if self._lookup is None or not holder.jid or self._seen.get(holder.jid, 0.0) > began:
            return False
        if not self._is_near(self._lookup, holder):
            status = self._lookup.settled_status(holder.jid)
            if status.absent or (status.verified and status.state in ENDED):
                return True
        if len(self._seen) >= MOST_SEEN:
            self._seen = {}
        ended = time.monotonic()
        self._seen[holder.jid] = ended + REST * (ended - began)
        return False

    def _is_near(self, lookup: JobLookup, holder: Holder) -> bool:
        """Whether the job is where it was when it got the lock, or is in progress in that queue."""
        due: tuple[StateWord, ...] = ("scheduled", "retry") if holder.due is not None else ()
        places = [JobStatus(holder.jid, state, False, False, due=holder.due) for state in due]
        places.append(JobStatus(holder.jid, "waiting", False, False, queue=holder.queue, since=holder.at))
        near = (job for place in places for _, _, job in lookup.seen_at(place, place.due))
        return any(is_job(job, holder.jid) for job in itertools.chain(near, self._held(holder.queue)))

    def _held(self, queue: str) -> Iterator[StoredJob]:
        return (one.job for one in itertools.islice(self._broker.admin.in_progress(queue), MOST_SEARCHED))
