"""Run statistics of a queue, by class: counts of outcomes, and histograms of run time and waiting time.

A row is a flat list of numbers, so that rows are added up by position and sent as JSON.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import islice

from goworkers_py.core.outcome import (
    Cancelled,
    Dead,
    Discard,
    Done,
    Expired,
    Lost,
    Outcome,
    Park,
    Requeue,
    Reschedule,
    Retry,
    Unacknowledged,
)
from goworkers_py.core.strikes import lock_outside_runs
from goworkers_py.observe.executions import BOUNDS_S as SIDEKIQS_BOUNDS_S
from goworkers_py.observe.executions import Executions

# The upper bounds of the buckets, in seconds. One more bucket counts longer times.
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
RESULTS = ("done", "retried", "dead", "discarded", "requeued", "unacknowledged", "cancelled", "expired")

# Positions in a row: the counts by RESULTS, then sum and buckets of the run times, then those of the waiting times.
RUN_SUM = len(RESULTS)
RUN = RUN_SUM + 1
WAIT_SUM = RUN + len(BOUNDS_S) + 1
WAIT = WAIT_SUM + 1
END = WAIT + len(BOUNDS_S) + 1
# For Sidekiq's Metrics page, which shows only the times of successful runs, in buckets of its own.
DONE_SUM = END
DONE_RUN = DONE_SUM + 1
_LENGTH = DONE_RUN + len(SIDEKIQS_BOUNDS_S) + 1

# Class names come from strangers, and each class takes a row here and in every monitor: so both are limited.
MOST_CLASSES = 500
LONGEST_CLASS = 200
OTHERS = "(others)"

Row = list[float]
Rows = dict[str, Row]

_POSITION: dict[type[Outcome], int] = {
    kind: position
    for position, kind in enumerate((Done, Retry, Dead, Discard, Requeue, Unacknowledged, Cancelled, Expired))
} | {Reschedule: RESULTS.index("requeued"), Park: RESULTS.index("requeued"), Lost: RESULTS.index("unacknowledged")}


# Where every microsecond counts, the jobs are short, and their run times are in the first bucket: no search.
_FIRST_S = BOUNDS_S[0]

# So many runs are counted together: if each run took the lock, workers would wait for each other at every job.
COUNTED_AT_ONCE = 200


class RunStats:
    def __init__(self, known: Iterable[str] = ()) -> None:
        """Each class in `known` has a row from the start: a monitor sees the first failure only as a change from 0."""
        self._lock = lock_outside_runs()
        self._rows: Rows = {}
        for job_class in known:
            self._new_row(job_class)
        # Runs that are not counted yet: workers append them, `_count` takes them out.
        self._runs: deque[tuple[str, Outcome, float, float | None]] = deque()

    def add(self, job_class: str, outcome: Outcome, ran_s: float, waited_s: float | None) -> None:
        """In a worker's thread, for every job: takes the lock only once in COUNTED_AT_ONCE runs."""
        self._runs.append((job_class, outcome, ran_s, waited_s))
        if len(self._runs) >= COUNTED_AT_ONCE:
            with self._lock:
                self._count()

    def _count(self) -> None:
        """The caller holds the lock. Workers may append to `_runs` meanwhile."""
        row_of, runs = self._rows.get, islice(iter(self._runs.popleft, None), len(self._runs))
        for job_class, outcome, ran_s, waited_s in runs:
            row = row_of(job_class) or self._new_row(job_class)
            if type(outcome) is Done:
                row[0] += 1
                row[DONE_SUM] += ran_s
                row[DONE_RUN + (bisect_right(SIDEKIQS_BOUNDS_S, ran_s) if ran_s > _FIRST_S else 0)] += 1
            else:
                row[_POSITION[type(outcome)]] += 1
            row[RUN_SUM] += ran_s
            row[RUN + (bisect_left(BOUNDS_S, ran_s) if ran_s > _FIRST_S else 0)] += 1
            if waited_s is not None:
                if waited_s > 0:  # below 0 if the producer's clock is ahead
                    row[WAIT_SUM] += waited_s
                row[WAIT + bisect_left(BOUNDS_S, waited_s)] += 1

    def add_unrun(self, job_class: str, outcome: Outcome) -> None:
        """For a job that ended without a run. The histograms are those of runs."""
        with self._lock:
            (self._rows.get(job_class) or self._new_row(job_class))[_POSITION[type(outcome)]] += 1

    def _new_row(self, job_class: str) -> Row:
        name = job_class[:LONGEST_CLASS]
        if name not in self._rows and len(self._rows) >= MOST_CLASSES:
            name = OTHERS
        return self._rows.setdefault(name, [0] * _LENGTH)

    @property
    def ended(self) -> int:
        """The number of runs, with any outcome."""
        return int(sum(sum(row[RUN:WAIT_SUM]) for row in self.snapshot().values()))

    def snapshot(self) -> Rows:
        with self._lock:
            self._count()
            return {name: row[:END] for name, row in self._rows.items()}

    def executions(self) -> dict[str, Executions]:
        with self._lock:
            self._count()
            return {name: _executions(row) for name, row in self._rows.items()}


def _executions(row: Row) -> Executions:
    done, retried, dead, discarded = map(int, row[:4])
    failures = retried + dead + discarded
    return Executions(done + failures, failures, int(row[DONE_SUM] * 1000), tuple(map(int, row[DONE_RUN:])))


def sum_of(several: Iterable[Rows]) -> Rows:
    sums: Rows = {}
    for rows in several:
        for job_class, row in rows.items():
            name = job_class if job_class in sums or len(sums) < MOST_CLASSES else OTHERS
            sums[name] = [total + other for total, other in zip(sums[name], row, strict=True)] if name in sums else row
    return sums
