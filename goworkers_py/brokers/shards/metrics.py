"""The runs of all shards that serve. A pyworkers process writes its runs to the first shard. A Sidekiq process writes
them to the shard that it works for. So the sums count each run once."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.brokers.contracts.metrics import CountedSpan, DeployMark, Metrics, RunCounts
from goworkers_py.brokers.shards.shard_list import ShardList


class ShardedMetrics(Metrics):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def minutes(self, since: float, until: float, job_class: str | None = None) -> Sequence[CountedSpan]:
        return _sums(self._shards.answers(lambda broker: broker.metrics.minutes(since, until, job_class)))

    def ten_minutes(self, since: float, until: float, job_class: str | None = None) -> Sequence[CountedSpan]:
        return _sums(self._shards.answers(lambda broker: broker.metrics.ten_minutes(since, until, job_class)))

    def histogram(self, job_class: str, since: float, until: float) -> Sequence[int]:
        told = self._shards.answers(lambda broker: broker.metrics.histogram(job_class, since, until))
        return [sum(counts) for counts in zip(*told, strict=True)]

    def marks(self, since: float, until: float) -> Sequence[DeployMark]:
        """A deploy that was marked on several shards is one mark."""
        told = self._shards.answers(lambda broker: broker.metrics.marks(since, until))
        return sorted({mark for marks in told for mark in marks})


def _sums(told: Sequence[Sequence[CountedSpan]]) -> list[CountedSpan]:
    """Every shard was asked for the same spans."""
    return [_sum(spans) for spans in zip(*told, strict=True)]


def _sum(spans: Sequence[CountedSpan]) -> CountedSpan:
    sums: dict[str, RunCounts] = {}
    for span in spans:
        for name, counts in span.classes.items():
            sums[name] = sums.get(name, RunCounts()).plus(counts)
    return CountedSpan(spans[0].at, sums)
