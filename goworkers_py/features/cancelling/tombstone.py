"""A request to cancel a job wherever it is, and one to end a job that runs: it was cancelled, or given to another
process."""

from __future__ import annotations

from goworkers_py.core.errors import JobCancelled, LeaseLost
from goworkers_py.core.values import NamedTuple

# Between the clock of the program that pushes a job and that of the program that cancels it.
CLOCKS_APART_S = 60.0


class Tombstone(NamedTuple):
    """Waits for a process to meet the job."""

    retry: bool  # as in CancelRequest
    at: float  # epoch seconds, when the job was to be cancelled
    many: bool = False  # of a batch or a chain, whose jobs name it in their payloads

    def is_of(self, created_at: float | None) -> bool:
        """False for a later job of the same jid, created at this time. An old worker or Ruby may have run the job for
        which the tombstone was laid, and left the tombstone."""
        return created_at is None or created_at <= self.at + CLOCKS_APART_S


class CancelRequest:
    """Made by the thread that cancels. `seen` is set by the job's thread."""

    __slots__ = ("lost", "retry", "seen")

    def __init__(self, retry: bool, lost: bool = False) -> None:
        self.retry = retry  # the run fails, and the job is retried
        self.lost = lost  # the job was given to another process, and this run counts for nothing
        self.seen = False  # the job has asked whether it is cancelled

    @property
    def error(self) -> type[JobCancelled]:
        """The exception that is raised in the job."""
        return LeaseLost if self.lost else JobCancelled
