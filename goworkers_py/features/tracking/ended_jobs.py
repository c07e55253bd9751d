"""Lists the tracked jobs that have ended."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from goworkers_py.admin.job_status import JobStatus, as_told
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.store import EndedPlace
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import INDEXED, StateWord

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


class EndedJobs:
    @property
    def _broker(self) -> Broker:
        raise NotImplementedError

    def ended(self, state: StateWord, *, after: str = "", limit: int = 50) -> EndedJobPage:
        """The tracked jobs that have completed, were cancelled or have expired, the newest first:
        `page = inspector.ended("completed")`, then `inspector.ended("completed", after=page.next)`.

        The broker lists the newest 10,000 of each state, as long as their records are kept. A page may hold fewer jobs
        than `limit`, and not be the last. Dead jobs are a place, `inspector.DEAD`.
        """
        self._broker.require(Capability.RECORDS)
        if state not in INDEXED:
            raise ArgumentError(f"state: {', '.join(INDEXED)}, not {state!r}")
        if limit < 1:
            raise ArgumentError(f"limit must be at least 1, is {limit}")
        place = _read(after)
        found: list[JobStatus] = []
        looked_at = 0
        while True:
            count = min(limit - len(found), AT_ONCE)
            page = self._broker.store.ended(state, place, count)
            found += [dataclasses.replace(as_told(record), verified=True) for record in page.records]
            place, looked_at = page.next, looked_at + count
            if place is None or len(found) >= limit or looked_at >= max(limit, MOST_LOOKED_AT):
                return EndedJobPage(found, "" if place is None else f"{place.at!r}-{place.jid}", page.total)


def _read(mark: str) -> EndedPlace | None:
    if not mark:
        return None
    at, _, jid = mark.partition("-")
    if not _TIME.fullmatch(at):
        raise ArgumentError(f"after: {mark!r} is not what `next` of a page was")
    return EndedPlace(float(at), jid)
