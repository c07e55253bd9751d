"""Chains: one that is in a batch lives beside it, any other on the home of its name. All its links run there."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.brokers.contracts.chains import Chains
from goworkers_py.brokers.shards.merging import merged
from goworkers_py.brokers.shards.placement import key_of_batch
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core.chain import ChainStatus, NewChain


class ShardedChains(Chains):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def push(self, new: NewChain) -> bool:
        key, what = (key_of_batch(new.bid), f"the batch {new.bid}") if new.bid else (new.cid, f"the chain {new.cid}")
        return self._shards.at_home(key, what, lambda broker: broker.chains.push(new))

    def cancel(self, cid: str) -> bool:
        return self._shards.first(cid, lambda broker: broker.chains.cancel(cid) or None) is True

    def status(self, cid: str) -> ChainStatus | None:
        return self._shards.first(cid, lambda broker: broker.chains.status(cid))

    def entries(self) -> Iterator[ChainStatus]:
        """The order across shards is that of their times of pushing and end."""
        return merged(self._shards, lambda broker: broker.chains.entries(), _order)


def _order(one: ChainStatus) -> tuple[bool, float]:
    return one.state == "ended", -(one.ended_at or one.since or one.at)
