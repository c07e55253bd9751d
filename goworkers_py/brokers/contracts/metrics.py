"""Reads how often and how long the jobs of each class have run, minute by minute, whatever program has run them.

Every verb raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no. Times
are epoch seconds. A span goes from the minute of `since` to the minute of `until`, both included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from goworkers_py.core.values import NamedTuple


class RunCounts(NamedTuple):
    """Of one class in one span of time. `total_ms` is the run time of the runs that have not failed."""

    runs: int = 0  # failed ones too
    failures: int = 0
    total_ms: int = 0

    def plus(self, other: RunCounts) -> RunCounts:
        return RunCounts(self.runs + other.runs, self.failures + other.failures, self.total_ms + other.total_ms)


class CountedSpan(NamedTuple):
    """A minute, or ten, and the classes that have run in it."""

    at: float  # where it begins
    classes: Mapping[str, RunCounts]


class DeployMark(NamedTuple):
    at: float  # where its minute begins
    label: str


class Metrics(Protocol):
    """Threads share it."""

    def minutes(self, since: float, until: float, job_class: str | None = None) -> Sequence[CountedSpan]:
        """Returns each minute of the span, the oldest first, also those without a run. With `job_class`, no other class
        is in them.

        The broker keeps about eight hours. Of a longer span, the newest 480 minutes are returned.
        """

    def ten_minutes(self, since: float, until: float, job_class: str | None = None) -> Sequence[CountedSpan]:
        """Like `minutes`, in steps of ten minutes, which begin at full tens.

        The broker keeps about three days. Of a longer span, the newest 432 steps are returned.
        """

    def histogram(self, job_class: str, since: float, until: float) -> Sequence[int]:
        """Returns how many runs of the class fall into each bucket of `observe.executions.BOUNDS_S`, and at the end how
        many were longer. Runs that failed are in none. As `minutes`, it knows the newest 480 minutes."""

    def marks(self, since: float, until: float) -> Sequence[DeployMark]:
        """Returns the deploys that people have marked in the span, the oldest first. The broker keeps them for 90
        days."""
