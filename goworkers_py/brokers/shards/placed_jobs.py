"""The jobs of one place on all shards, as one list: of a queue by the time at which they came into it, of a state by
their time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from functools import partial

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.admin import DELETED, PAGE, Changed, Decide, Glance, Place, PlacedJobs
from goworkers_py.brokers.contracts.span import BEGINNING, EVERY_JOB, Span
from goworkers_py.brokers.shards.merging import merged
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList, iterating
from goworkers_py.core.errors import ArgumentError, BrokerUnavailable
from goworkers_py.core.job_state import JobState
from goworkers_py.wire.stored_job import StoredJob


class ShardedJobs(PlacedJobs):
    """Any thread asks it. A shard that is away is left out."""

    def __init__(self, shards: ShardList, place: Place, glance: Glance | None = None) -> None:
        self._shards = shards
        self._place = place
        self._glance = glance
        for shard in shards.all:
            shard.broker.admin.jobs_in(place)  # raises for a place that is none

    def count(self) -> int:
        return sum(self._shards.answers(lambda broker: self._of(broker).count()))

    def first(self, limit: int, start: int = 0) -> list[StoredJob]:
        told = self._shards.answers(lambda broker: self._of(broker).first(start + limit))
        found = sorted((one for jobs in told for one in jobs), key=self._order)
        return found[start : start + limit]

    def before(self, time: float, newest_first: bool = False) -> int:
        return sum(self._shards.answers(lambda broker: self._of(broker).before(time, newest_first)))

    def at(self, time: float) -> list[StoredJob]:
        return [one for jobs in self._shards.answers(lambda broker: self._of(broker).at(time)) for one in jobs]

    def around(self, time: float) -> Iterator[tuple[int, StoredJob]]:
        return self._shards.steps(lambda broker: self._of(broker).around(time))

    def take_out(self, job: StoredJob, place: int = 0, reason: str = DELETED) -> bool:
        return any(self._shards.answers(lambda broker: self._of(broker).take_out(job, place, reason)))

    def pages(self, newest_first: bool = False, start: int = 0) -> Iterator[list[StoredJob]]:
        """The pages of the shards, merged in the order of their jobs, and cut into pages again."""
        always_newest_first = self._place.state in (JobState.WAITING, JobState.PARKED, JobState.OUTBOX)

        def one_by_one(broker: Broker) -> Iterator[StoredJob]:
            return (one for page in self._of(broker).pages(newest_first) for one in page)

        reverse = newest_first or always_newest_first
        page: list[StoredJob] = []
        for number, one in enumerate(merged(self._shards, one_by_one, self._order, reverse)):
            if number >= start:
                page.append(one)
            if len(page) == PAGE:
                yield page
                page = []
        if page:
            yield page

    def change(self, decide: Decide, span: Span = EVERY_JOB) -> Iterator[tuple[int, Changed]]:
        """Shard by shard, each a part: the changes of a page are one step of its shard, and the span begins and ends
        on each shard among the jobs of that shard."""
        failed: BrokerUnavailable | None = None
        served = False
        for shard in self._from(span.reached.part):
            here = span if shard.name == span.reached.part else dataclasses.replace(span, reached=BEGINNING)
            change = partial(self._change, decide=decide, span=here)
            try:
                for looked_at, changed in iterating(shard, change):
                    changed.reached = changed.reached._replace(part=shard.name)
                    yield looked_at, changed
                served = True
            except BrokerUnavailable as error:
                failed = error
        if failed is not None and not served:
            raise failed

    def _change(self, broker: Broker, decide: Decide, span: Span) -> Iterator[tuple[int, Changed]]:
        return self._of(broker).change(decide, span)

    def _from(self, part: str) -> Sequence[Shard]:
        names = [shard.name for shard in self._shards.all]
        if part and part not in names:
            raise ArgumentError(f"there is no shard {part}, on which a change could go on")
        return self._shards.all[names.index(part) :] if part else self._shards.all

    def clear(self) -> int:
        return sum(self._shards.every(lambda broker: self._of(broker).clear()))

    def _of(self, broker: Broker) -> PlacedJobs:
        return broker.admin.jobs_in(self._place, self._glance)

    def _order(self, job: StoredJob) -> float:
        if job.at is not None:
            return job.at
        message = job.message
        at = message.enqueued_at if message is not None else None
        return at if at is not None and not math.isnan(at) else 0.0
