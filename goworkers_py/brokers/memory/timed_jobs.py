"""Jobs that wait for a time, or died at one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from goworkers_py.core.values import NamedTuple


class TimedJob(NamedTuple):
    at: float  # when it is due, or died
    number: int  # keeps jobs of the same time and equal bytes apart
    payload: bytes


class TimedJobs:
    """Jobs by their time; jobs of the same time in the order in which they were added."""

    def __init__(self) -> None:
        self._jobs: list[TimedJob] = []

    def add(self, job: TimedJob) -> None:
        """Does nothing when the job is here already."""
        if job not in self:
            self._jobs.insert(bisect_left(self._jobs, job), job)

    def remove(self, job: TimedJob) -> bool:
        """False when the job is not here."""
        if job not in self:
            return False
        del self._jobs[bisect_left(self._jobs, job)]
        return True

    def until(self, at: float, limit: int) -> list[TimedJob]:
        """Up to `limit` jobs whose time is `at` or earlier, the earliest first."""
        return self._jobs[: min(limit, self._count_until(at))]

    def next_after(self, at: float) -> float | None:
        """The earliest time after `at` that a job has; None when no job has a later time."""
        return next((job.at for job in self._jobs[self._count_until(at) :][:1]), None)

    def trim(self, limit: int, until: float) -> None:
        """Drops the jobs whose time is `until` or earlier, and the earliest ones beyond `limit`."""
        del self._jobs[: max(len(self._jobs) - limit, self._count_until(until))]

    def clear(self) -> None:
        self._jobs.clear()

    def _count_until(self, at: float) -> int:
        return bisect_right(self._jobs, at, key=lambda job: job.at)

    def __contains__(self, job: TimedJob) -> bool:
        place = bisect_left(self._jobs, job)
        return place < len(self._jobs) and self._jobs[place] == job

    def __iter__(self) -> Iterator[TimedJob]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)
