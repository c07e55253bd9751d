"""The part of the inspector that reads the records of tracked jobs, whatever the size of the places."""

from __future__ import annotations

from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.admin.job_status import check_jid
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.admin import Glance, Place
from goworkers_py.features.tracking.record import JobRecord
from goworkers_py.wire.payload import encodable
from goworkers_py.wire.stored_job import StoredJob


class TrackedJobs:
    @property
    def _broker(self) -> Broker:
        raise NotImplementedError

    def record(self, jid: str) -> JobRecord | None:
        """`inspector.record(jid).progress` is what a tracked job's record says, without a look at the place where the
        job should be. None for a job that is not tracked."""
        if not _may_be_tracked(jid):
            return None
        broker = self._broker
        return broker.store.record(jid) if Capability.STORE in broker.capabilities else None

    def placed(self, jid: str) -> tuple[Place, StoredJob] | None:
        """`place, job = inspector.placed(jid)`: where a tracked job waits, found by its record. None for any other job,
        and for one that is not where its record says. Something small stands in for a payload of megabytes."""
        return JobLookup(self._broker, Glance(jid=jid)).place_of(jid) if _may_be_tracked(jid) else None


def _may_be_tracked(jid: str) -> bool:
    """False for a jid with half a surrogate pair, which can name no record."""
    if jid and not encodable(jid):
        return False
    check_jid(jid)
    return True
