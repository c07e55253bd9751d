"""Batches, each on the home of its name, with all its jobs and the batches inside of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts.batches import Batches
from goworkers_py.brokers.shards.merging import merged
from goworkers_py.brokers.shards.placement import key_of_batch
from goworkers_py.brokers.shards.shard_list import ShardList, T, Verb
from goworkers_py.core.batch import BatchStatus, Death, NewBatch


class ShardedBatches(Batches):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def open(self, new: NewBatch) -> bool:
        return self._at_home(new.member.bid, lambda broker: broker.batches.open(new))

    def hold(self, bid: str, hold: str) -> bool:
        return self._at_home(bid, lambda broker: broker.batches.hold(bid, hold))

    def let_go(self, bid: str, hold: str, to: Sequence[str] = ()) -> None:
        self._at_home(bid, lambda broker: broker.batches.let_go(bid, hold, to))

    def cancel(self, bid: str, to: Sequence[str] = ()) -> bool:
        return self._at_home(bid, lambda broker: broker.batches.cancel(bid, to))

    def close(self, bid: str, to: Sequence[str] = (), force: bool = False) -> bool:
        return self._at_home(bid, lambda broker: broker.batches.close(bid, to, force))

    def status(self, bid: str) -> BatchStatus | None:
        return self._at_home(bid, lambda broker: broker.batches.status(bid))

    def deaths(self, bid: str) -> list[Death]:
        return self._at_home(bid, lambda broker: broker.batches.deaths(bid))

    def entries(self) -> Iterator[BatchStatus]:
        """The order across shards is that of their times of opening and end."""
        return merged(self._shards, lambda broker: broker.batches.entries(), _order)

    def _at_home(self, bid: str, verb: Verb[T]) -> T:
        return self._shards.at_home(key_of_batch(bid), f"the batch {bid}", verb)


def _order(one: BatchStatus) -> tuple[bool, float]:
    return one.ended_at is not None and not one.failed, -(one.ended_at or one.at)
