"""The verbs of the inspector for tracked jobs: reads their records, and lists those that have ended."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.admin.job_status import JobStatus, as_recorded, check_jid
from goworkers_py.admin.verbs import Verbs
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.admin import Glance, Place
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import INDEXED, StateWord
from goworkers_py.core.values import dataclass
from goworkers_py.features.parts import Whereabouts
from goworkers_py.features.tracking.contract import EndedPlace, Records
from goworkers_py.wire.job_record import JobRecord
from goworkers_py.wire.payload import encodable
from goworkers_py.wire.stored_job import StoredJob

# Entries of the index that one call looks at.
MOST_LOOKED_AT = 2_000
AT_ONCE = 999
_TIME = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class EndedJobPage:
    """Some tracked jobs that have ended, and where the next page begins."""

    jobs: Sequence[JobStatus]
    next: str  # give it as `after`; empty when there are no more jobs
    total: int  # about how many there are in all


class RecordVerbs(Verbs):
    @property
    def knows_records(self) -> bool:
        """Whether the broker keeps records of tracked jobs: without them `ended` raises ConfigError."""
        return self.has(Records)

    def record(self, jid: str) -> JobRecord | None:
        """Reads the record of a tracked job, without a look at the place where the job should be:
        `inspector.record(jid).progress`. None for a job that is not tracked."""
        if not _may_be_tracked(jid):
            return None
        records = self._broker.part(Records)
        return None if records is None else records.record(jid)

    def placed(self, jid: str) -> tuple[Place, StoredJob] | None:
        """`place, job = inspector.placed(jid)`: where a tracked job waits, found by its record. None for any other job,
        and for one that is not where its record says. Something small stands in for a payload of megabytes."""
        return JobLookup(self._broker, Glance(jid=jid)).place_of(jid) if _may_be_tracked(jid) else None

    def ended(self, state: StateWord, *, after: str = "", limit: int = 50) -> EndedJobPage:
        """The tracked jobs that have completed, were cancelled or have expired, the newest first:
        `page = inspector.ended("completed")`, then `inspector.ended("completed", after=page.next)`.

        The broker lists the newest 10,000 of each state, as long as their records are kept. A page may hold fewer jobs
        than `limit`, and not be the last. Dead jobs are a place, `inspector.DEAD`.
        """
        records = self._broker.require_part(Records)
        if state not in INDEXED:
            raise ArgumentError(f"state: {', '.join(INDEXED)}, not {state!r}")
        if limit < 1:
            raise ArgumentError(f"limit must be at least 1, is {limit}")
        place = _read(after)
        found: list[JobStatus] = []
        looked_at = 0
        while True:
            count = min(limit - len(found), AT_ONCE)
            page = records.ended(state, place, count)
            found += [dataclasses.replace(as_recorded(record), verified=True) for record in page.records]
            place, looked_at = page.next, looked_at + count
            if place is None or len(found) >= limit or looked_at >= max(limit, MOST_LOOKED_AT):
                return EndedJobPage(found, "" if place is None else f"{place.at!r}-{place.jid}", page.total)


def _may_be_tracked(jid: str) -> bool:
    """False for a jid with half a surrogate pair, which can name no record."""
    if jid and not encodable(jid):
        return False
    check_jid(jid)
    return True


def _read(mark: str) -> EndedPlace | None:
    if not mark:
        return None
    at, _, jid = mark.partition("-")
    if not _TIME.fullmatch(at):
        raise ArgumentError(f"after: {mark!r} is not what `next` of a page was")
    return EndedPlace(float(at), jid)


def _records(broker: Broker) -> Callable[[str], JobRecord | None] | None:
    records = broker.part(Records)
    return None if records is None else records.record


WHEREABOUTS = Whereabouts(records=_records)
