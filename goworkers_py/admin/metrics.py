"""Shows how often, how long and with which success the jobs of each class have run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from goworkers_py.admin.verbs import Verbs
from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.contracts.metrics import CountedSpan, DeployMark, RunCounts
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import dataclass
from goworkers_py.observe.executions import BOUNDS_S, percentile_s

BY_MINUTE, BY_TEN_MINUTES = (1, 2, 4, 8), (24, 72)
HOUR_S = 3600
MINUTE_S, TEN_MINUTES_S = 60, 600
BOUNDS_MS = tuple(round(bound * 1000) for bound in BOUNDS_S)


@dataclass(frozen=True, slots=True)
class RunSeries:
    """The runs of a class, step by step, the oldest step first. The last step has not ended."""

    step_s: int  # 60 or 600
    starts: Sequence[float]  # where each step begins, in epoch seconds
    runs: Sequence[int]
    failures: Sequence[int]


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """The runs of one class in the last hours."""

    job_class: str
    runs: int  # failed ones too
    failures: int
    total_ms: int  # of the runs that have not failed
    series: RunSeries

    @property
    def mean_ms(self) -> float | None:
        """Of the runs that have not failed; None if there is none."""
        succeeded = self.runs - self.failures
        return self.total_ms / succeeded if succeeded > 0 else None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "mean_ms": self.mean_ms}


@dataclass(frozen=True, slots=True)
class ClassRunTimes(ClassMetrics):
    """Like `ClassMetrics`, with how long the runs have taken that have not failed.

    A percentile takes the runs of a bucket to be spread evenly over it, so it is right to the width of its bucket:
    within a half of its value as a rule. Where it falls into the last bucket, which has no end, it is 335,000: the runs
    took at least as long. It is None without a run.
    """

    histogram: Sequence[int]  # runs below each bound of `bounds_ms`, and at the end the longer ones
    histogram_since: float  # where the first minute begins that the histogram knows, in epoch seconds
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    bounds_ms: Sequence[int] = BOUNDS_MS

    def as_dict(self) -> dict[str, Any]:
        return ClassMetrics.as_dict(self)  # of a class with slots, super() would need an argument


class ExecutionMetrics(Verbs):
    @property
    def knows_metrics(self) -> bool:
        """Whether the broker keeps figures of runs: without them `metrics` raises ConfigError."""
        return {Capability.METRICS, Capability.ADMIN} <= set(self._broker.capabilities)

    def metrics(self, hours: int = 1) -> list[ClassMetrics]:
        """The classes that have run in the last `hours`, in any language, that with the longest run time first:
        `[(one.job_class, one.runs, one.mean_ms) for one in inspector.metrics()]`.

        1, 2, 4 or 8 hours are told by the minute; 24 or 72 hours by ten minutes, of which Sidekiq 7 has the last 8
        hours only.
        """
        spans = self._spans(hours, self._now())
        names = {name for span in spans for name in span.classes}
        found = [_of_class(name, spans, _step_s(hours)) for name in names]
        return sorted(found, key=lambda metrics: (-metrics.total_ms, -metrics.runs, metrics.job_class))

    def metrics_of(self, job_class: str, hours: int = 1) -> ClassRunTimes:
        """The runs of one class, with the histogram and percentiles of their run times:
        `inspector.metrics_of("Billing::InvoiceJob", hours=8).p95_ms`. A class that has not run has no runs.

        The broker keeps histograms for 8 hours: with more `hours`, they are those of the last 8.
        """
        now = self._now()
        metrics = _of_class(job_class, self._spans(hours, now, job_class), _step_s(hours))
        since = _first(now, min(hours, BY_MINUTE[-1]), MINUTE_S)
        histogram = self._broker.metrics.histogram(job_class, since, now)
        p50, p95, p99 = (_percentile_ms(histogram, percent) for percent in (50, 95, 99))
        return ClassRunTimes(
            job_class, metrics.runs, metrics.failures, metrics.total_ms, metrics.series, histogram, since, p50, p95, p99
        )

    def deploy_marks(self, hours: int = 1) -> list[DeployMark]:
        """The deploys that `pyworkers mark` or Sidekiq has marked in the last `hours`, the oldest first:
        `[(mark.at, mark.label) for mark in inspector.deploy_marks(24)]`. Takes the hours that `metrics` takes."""
        now = self._now()
        return list(self._broker.metrics.marks(_first(now, hours, _step_s(hours)), now))

    def _now(self) -> float:
        """By the clock of the broker: that of this machine may be minutes off, and show an empty end."""
        self._broker.require(Capability.METRICS, Capability.ADMIN)
        return self._broker.admin.now()

    def _spans(self, hours: int, now: float, job_class: str | None = None) -> Sequence[CountedSpan]:
        step_s, metrics = _step_s(hours), self._broker.metrics
        read = metrics.minutes if step_s == MINUTE_S else metrics.ten_minutes
        return read(_first(now, hours, step_s), now, job_class)


def _step_s(hours: int) -> int:
    if hours in BY_MINUTE:
        return MINUTE_S
    if hours in BY_TEN_MINUTES:
        return TEN_MINUTES_S
    allowed = ", ".join(map(str, (*BY_MINUTE, *BY_TEN_MINUTES)))
    raise ArgumentError(f"hours: one of {allowed}, not {hours!r}")


def _first(now: float, hours: int, step_s: int) -> float:
    """Where the first step begins. The step of `now` is the last one."""
    return now // step_s * step_s - hours * HOUR_S + step_s


def _of_class(job_class: str, spans: Sequence[CountedSpan], step_s: int) -> ClassMetrics:
    counts = [span.classes.get(job_class, RunCounts()) for span in spans]
    runs, failures = [count.runs for count in counts], [count.failures for count in counts]
    series = RunSeries(step_s, [span.at for span in spans], runs, failures)
    return ClassMetrics(job_class, sum(runs), sum(failures), sum(count.total_ms for count in counts), series)


def _percentile_ms(histogram: Sequence[int], percent: float) -> float | None:
    found = percentile_s(histogram, percent)
    return None if found is None else found * 1000
