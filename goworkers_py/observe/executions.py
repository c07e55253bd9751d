"""Runs, failures and run times of each class, as Sidekiq's Metrics page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from goworkers_py.core.values import NamedTuple

# Sidekiq's upper bounds of the buckets, in seconds. One more bucket counts longer runs.
BOUNDS_S = (
    0.020, 0.030, 0.045, 0.065, 0.100, 0.150, 0.225, 0.335, 0.500, 0.750, 1.1, 1.7, 2.5, 3.8, 5.75, 8.5, 13.0, 20.0,
    30.0, 45.0, 65.0, 100.0, 150.0, 225.0, 335.0,
)  # fmt: skip


class Executions(NamedTuple):
    """The counts of one class. `milliseconds` and `histogram` count successful runs only."""

    runs: int
    failures: int
    milliseconds: int
    histogram: tuple[int, ...]

    def plus(self, other: Executions, sign: int = 1) -> Executions:
        return Executions(
            self.runs + sign * other.runs,
            self.failures + sign * other.failures,
            self.milliseconds + sign * other.milliseconds,
            tuple(count + sign * more for count, more in zip(self.histogram, other.histogram, strict=True)),
        )

    def since(self, before: Executions | None) -> Executions:
        return self if before is None else self.plus(before, -1)


# By queue and class.
ByQueue = Mapping[str, Mapping[str, Executions]]


def total(several: Iterable[Mapping[str, Executions]]) -> dict[str, Executions]:
    """The sums over several queues, by class."""
    sums: dict[str, Executions] = {}
    for executions in several:
        for name, more in executions.items():
            sums[name] = sums[name].plus(more) if name in sums else more
    return sums


def percentile_s(histogram: Sequence[int], percent: float) -> float | None:
    """The run time that so many percent of the runs have not exceeded, about: the runs of a bucket are taken to be
    spread evenly over it. None without a run. Of a run in the last bucket, which has no end, the result is its begin:
    the run took at least as long.
    """
    rank = sum(histogram) * percent / 100
    before = 0
    low = 0.0
    for high, count in zip((*BOUNDS_S, BOUNDS_S[-1]), histogram, strict=True):
        if count and before + count >= rank:
            return low + (high - low) * (rank - before) / count
        before, low = before + count, high
    return None
