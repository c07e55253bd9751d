"""Where jobs of a feature wait that are neither in a queue nor in a state of the broker."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from goworkers_py.admin.job_status import JobStatus
from goworkers_py.core.job_state import StateWord
from goworkers_py.wire.job_record import JobRecord
from goworkers_py.wire.stored_job import StoredJob


class OwnPlaces(Protocol):
    @property
    def states(self) -> Collection[StateWord]:
        """The states of jobs that wait there, in their records."""

    def find(self, jid: str) -> JobStatus | None:
        """Looks at a bounded number of jobs."""

    def is_complete(self) -> bool:
        """Whether `find` looks at every job."""

    def holds(self, record: JobRecord) -> bool:
        """Whether the job is where this record says, whose state is one of `states`."""

    def take_out(self, jid: str, reason: str) -> StoredJob | None:
        """Deletes a job that waits there, unless something has begun with it. `reason` is for its record."""

    def waiting(self) -> Iterator[StoredJob]:
        """The jobs that wait there, and with which nothing has begun."""
