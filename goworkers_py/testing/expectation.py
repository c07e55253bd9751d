"""Compares an expected push with the pushes that were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from goworkers_py.core.values import dataclass
from goworkers_py.observe.log_format import time_text
from goworkers_py.testing.enqueued_job import EnqueuedJob, call_text

# `enqueue_in` reads the clock a moment before the push does, and payloads may have times in whole milliseconds.
DELAY_TOLERANCE_S = 1.0
TIME_TOLERANCE_S = 0.002
MOST_SHOWN = 10

_MISSING = object()


@dataclass(frozen=True)
class Expectation:
    """None: anything will do."""

    job_class: str
    args: Sequence[Any] | None
    kwargs: Mapping[str, Any] | None
    queue: str | None
    at: float | None
    delay_s: float | None

    def distance(self, job: EnqueuedJob) -> float:
        """0 for the expected job. The smaller, the more alike."""
        return (
            100 * _unlike(self.job_class, job.job_class)
            + (0 if self.args is None else _differing(zip_longest(self.args, _list(job.args), fillvalue=_MISSING)))
            + (0 if self.kwargs is None else _differing(_by_name(self.kwargs, job.kwargs)))
            + (self.queue not in (None, job.queue))
            + (self.at is not None and not _near(self.at, job.at, TIME_TOLERANCE_S))
            + (self.delay_s is not None and not _near(self.delay_s, job.delay_s, DELAY_TOLERANCE_S))
        )

    def __str__(self) -> str:
        call = (
            f"{self.job_class}(...)" if self.args is None else call_text(self.job_class, self.args, self.kwargs or {})
        )
        queue = f" in queue {self.queue}" if self.queue is not None else ""
        at = f" at {time_text(self.at)}" if self.at is not None else ""
        return f"{call}{queue}{at}{f' in {self.delay_s:.6g} s' if self.delay_s is not None else ''}"

    def failure_text(self, found: int, wanted: str, jobs: Sequence[EnqueuedJob]) -> str:
        """The text of the error: what was expected, and what was enqueued, the nearest first."""
        text = f"{self} was enqueued {found} time{'' if found == 1 else 's'}, expected {wanted}"
        if not jobs:
            return f"{text}; nothing was enqueued"
        nearest = sorted(jobs, key=self.distance)
        lines = [f"    {job}" for job in nearest[:MOST_SHOWN]]
        more = [f"    and {len(jobs) - MOST_SHOWN} more"] if len(jobs) > MOST_SHOWN else []
        return "\n".join([f"{text}. Enqueued, the nearest first:", *lines, *more])


def _unlike(first: str, other: str) -> float:
    return 0.0 if first == other else 1 - SequenceMatcher(None, first, other).ratio()


def _list(args: Any) -> list[Any]:
    return args if isinstance(args, list) else [args]


def _by_name(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return [(expected.get(name, _MISSING), actual.get(name, _MISSING)) for name in {*expected, *actual}]


def _differing(pairs: Any) -> int:
    return sum(not _same(expected, actual) for expected, actual in pairs)


def _same(expected: Any, actual: Any) -> bool:
    """The expected value is asked first: it may be `unittest.mock.ANY`, or hold it."""
    return expected is not _MISSING and actual is not _MISSING and bool(expected == actual)


def _near(expected: float, actual: float | None, tolerance: float) -> bool:
    return actual is not None and abs(expected - actual) <= tolerance
