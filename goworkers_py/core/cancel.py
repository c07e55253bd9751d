"""A request to cancel a job that runs."""

from __future__ import annotations


class CancelRequest:
    """Made by the thread that cancels. `seen` is set by the job's thread."""

    __slots__ = ("retry", "seen")

    def __init__(self, retry: bool) -> None:
        self.retry = retry  # the run fails, and the job is retried
        self.seen = False  # the job has asked whether it is cancelled
