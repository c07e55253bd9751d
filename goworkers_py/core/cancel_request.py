"""A request to end a job that runs: it was cancelled, or given to another process."""

from __future__ import annotations

from goworkers_py.core.errors import JobCancelled, LeaseLost


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
