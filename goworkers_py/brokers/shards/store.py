"""Jobs that wait, on all shards; records, cursors and values by the jid of their job."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.store import EndedPage, EndedPlace, Forward, Posted, RunningMark, Store
from goworkers_py.brokers.contracts.transport import Batch, Finished, Settled
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList, iterating, raise_worst
from goworkers_py.brokers.shards.watches import watch_all
from goworkers_py.core.cursor import Cursor, Iteration
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerRefused, BrokerUnavailable
from goworkers_py.core.job_state import JobState, StateWord
from goworkers_py.wire.job_record import JobRecord


class ShardedStore(Store):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def promote(self, state: JobState, forward: Forward, at_once: int) -> Iterator[float | None]:
        """Shard by shard. The jobs of one that is away come late, when it is back. One that refuses, because a key is
        damaged, say, stops no other one: its error is raised at the end."""
        steps = _Steps(forward)
        failures: list[BrokerError] = []
        served = False
        for shard in self._shards.all:
            last: float | None = None
            try:
                for last in iterating(shard, lambda broker: broker.store.promote(state, steps.forward, at_once)):
                    if steps.has_moved():
                        yield steps.next_in(last)
                served = True
            except (BrokerUnavailable, BrokerRefused) as error:
                failures.append(error)
            steps.ended(last)
        raise_worst(failures, served)
        if steps.is_open:
            yield steps.next_in(None)

    def release(self, line: str, count: int) -> int:
        released = 0
        for shard in self._shards.all:
            if released < count and not shard.away:
                left = count - released
                released += shard.ask(lambda broker, left=left: broker.store.release(line, left))  # type: ignore[misc]
        return released

    def apply(self, batch: Batch) -> Sequence[Settled]:
        """Each delivery beside the record of its jid: its queue is on another server, and it has no shard."""
        by_shard: dict[Shard, list[Finished]] = {}
        for one in batch.finished:
            by_shard.setdefault(self._shards.of(one[0]), []).append(one)
        results: dict[Delivery, Settled] = {}
        for shard, finished in by_shard.items():
            part = dataclasses.replace(batch, finished=finished)
            told = self._shards.bound(shard, "the end of this job", partial(_apply, part))
            results.update(zip((one for one, _ in finished), told, strict=True))
        return [results[one] for one, _ in batch.finished]

    def posted(self, to: str, limit: int, passed: int = 0) -> list[Posted]:
        told = self._shards.each(lambda broker: broker.store.posted(to, passed + limit))
        found = [dataclasses.replace(one, receipt=(shard, one.receipt)) for shard, several in told for one in several]
        return found[passed : passed + limit]

    def sent(self, to: str, posted: Sequence[Posted]) -> None:
        for shard in self._shards.all:
            ours = [dataclasses.replace(one, receipt=one.receipt[1]) for one in posted if one.receipt[0] is shard]
            if ours:
                shard.ask(lambda broker, ours=ours: broker.store.sent(to, ours))  # type: ignore[misc]

    def ended(self, state: StateWord, after: EndedPlace | None, limit: int) -> EndedPage:
        """Of all shards that serve. None was looked at beyond the newest of the places at which they have stopped."""
        pages = self._shards.answers(lambda broker: broker.store.ended(state, after, limit))
        end = max((page.next for page in pages if page.next is not None), key=lambda place: place.order, default=None)
        found = [(EndedPlace(one.at, one.jid), one) for page in pages for one in page.records]
        found.sort(key=lambda told: told[0].order, reverse=True)
        seen = [told for told in found if end is None or told[0].order >= end.order]
        if len(seen) > limit:
            seen, end = seen[:limit], seen[limit - 1][0]
        return EndedPage([record for _, record in seen], end, sum(page.total for page in pages))

    # --- by jid

    def record(self, jid: str) -> JobRecord | None:
        return self._shards.first(jid, lambda broker: broker.store.record(jid))

    def watch(self, jid: str, changed: Callable[[], None]) -> Callable[[], None]:
        return watch_all(self._shards, lambda broker, told: broker.store.watch(jid, told), changed)

    def mark_running(self, marks: Sequence[RunningMark]) -> list[bool]:
        written: dict[int, bool] = {}
        for shard in self._shards.all:
            ours = {at: mark for at, mark in enumerate(marks) if self._shards.of(mark.delivery) is shard}
            if ours and not shard.away:
                told = shard.ask(lambda broker, ours=ours: broker.store.mark_running([*ours.values()]))  # type: ignore[misc]
                written.update(zip(ours, told, strict=True))
        return [written.get(at, False) for at in range(len(marks))]

    def begin_iteration(self, jid: str, of: str) -> Iteration:
        return self._shards.at_home(jid, "the cursor of this job", lambda broker: broker.store.begin_iteration(jid, of))

    def checkpoint(self, jid: str, cursor: Cursor) -> bool:
        return self._shards.at_home(jid, "the cursor of this job", lambda broker: broker.store.checkpoint(jid, cursor))

    def value(self, kind: str, jid: str) -> bytes | None:
        return self._shards.first(jid, lambda broker: broker.store.value(kind, jid))


def _apply(part: Batch, broker: Broker) -> Sequence[Settled]:
    return broker.store.apply(part)


class _Steps:
    """The steps of one promotion. One that found no due job is not told, unless it is the last."""

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._moves = False
        self._nexts: list[float] = []  # in how many seconds the next job of each shard is due
        self._told: float | None = None
        self._any_told = False

    def forward(self, payload: bytes, now: float) -> tuple[str | None, bytes]:
        self._moves = True
        return self._forward(payload, now)

    def has_moved(self) -> bool:
        moved, self._moves = self._moves, False
        return moved

    def next_in(self, of_this_shard: float | None) -> float | None:
        nexts = self._nexts if of_this_shard is None else [*self._nexts, of_this_shard]
        self._told, self._any_told = min(nexts, default=None), True
        return self._told

    def ended(self, last: float | None) -> None:
        if last is not None:
            self._nexts.append(last)

    @property
    def is_open(self) -> bool:
        """Whether the last step that was told did not take all shards into account."""
        return not self._any_told or self._told != min(self._nexts, default=None)
