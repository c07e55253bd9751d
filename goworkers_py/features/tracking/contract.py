"""The records of tracked jobs, see `features.tracking.record`. A push makes the record of its job, see `RecordTie`; a
step that moves the job writes it into the record, see `NoteState`.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.features.tracking.effects import TrackedJob
from goworkers_py.wire.job_record import JobRecord


class EndedPlace(NamedTuple):
    """A place in the index of the jobs that have ended in one state. The newest come first, and of one time those with
    the greatest jid, by its bytes."""

    at: float  # when the job has ended
    jid: str

    @property
    def order(self) -> tuple[float, bytes]:
        return self.at, self.jid.encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class EndedPage:
    """Some of the tracked jobs that have ended in one state, the newest first."""

    records: Sequence[JobRecord]  # `result` is empty: b"" where one is kept
    next: EndedPlace | None  # the last entry that was looked at; None when there are no more
    total: int  # of the entries, about: some may be of jobs that are left out


class RunningMark(NamedTuple):
    """A tracked job that runs."""

    job: TrackedJob
    delivery: Delivery
    progress: str | None  # as JSON, see `features.tracking.record`
    first: bool  # it has just begun; False: only its progress is new
    also: tuple[Effect, ...] = ()  # of other features, in the same step; they are repeatable, and may fail


class Records(Protocol):
    """Threads share it."""

    def record(self, jid: str) -> JobRecord | None:
        """Returns the record of a tracked job. None when there is none, or its life is over."""

    def ended(self, state: StateWord, after: EndedPlace | None, limit: int) -> EndedPage:
        """Looks at up to `limit` jobs, 1,000 at most, of the index of the tracked jobs that have ended in a state of
        `INDEXED`, from the newest on, or from behind `after` on. The step that writes such an end into the record of a
        job adds the job to the index, which keeps the newest 10,000 or more of each state.

        A page may hold fewer jobs than `limit`, and not be the last: it leaves out a job whose record is over, or says
        something else by now, because the job was pushed anew. Those entries leave the index. Ends that a release
        without the index has written are not told."""

    def watch(self, jid: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Calls `changed` soon when the job may have ended, and once when the watch has begun. It is called in another
        thread, and must not block. It may be called in vain; where the broker cannot tell ends, it is not called: so
        the caller reads the record now and then too. Returns the function that ends the watch."""

    def mark_running(self, marks: Sequence[RunningMark]) -> list[bool]:
        """Writes into the records of jobs that they run under the identity of their delivery. Marks come late: a job
        that is no longer in progress under that identity is skipped, and so is progress of a job whose record does not
        say that it runs there. Returns whether each was written."""
