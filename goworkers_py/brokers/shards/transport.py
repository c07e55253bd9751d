"""The queues of all shards: a queue is on each of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import cast

from goworkers_py.brokers.contracts.transport import Batch, Pollable, PublishResult, Settled, Transport
from goworkers_py.brokers.shards.consumer import ShardConsumer
from goworkers_py.brokers.shards.moves import Moves
from goworkers_py.brokers.shards.publishing import Publishing
from goworkers_py.brokers.shards.settlement import ShardSettlement
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerError
from goworkers_py.policy.priorities import Ask


class ShardedTransport(Transport):
    """The receipt of a delivery is the number of its shard."""

    leaves_waits = True

    def __init__(self, shards: ShardList, moves: Moves) -> None:
        self._shards = shards
        self._moves = moves
        self.publish_to = Publishing(shards)
        self._settlement = ShardSettlement(shards, moves)
        # By the queues that are consumed together. The fetcher's thread of these queues adds their entry; other threads
        # read. Each dict operation is one step.
        self._consumers: dict[frozenset[str], ShardConsumer] = {}
        for shard in shards.all:
            cast(Pollable, shard.broker.transport).leaves_waits = True
            shard.on_return = self._on_return

    def publish(self, pushes: Sequence[Push]) -> Sequence[PublishResult]:
        return self.publish_to.publish(pushes)

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        return self._consumer([queue for queue, _ in asks]).consume(identity, asks, limit, wait_s)

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        return self._consumer_of(queues).end_waits(queues)

    def waits_run(self, queues: Sequence[str]) -> bool:
        return self._consumer(queues).waits_run

    def _consumer_of(self, queues: Sequence[str]) -> ShardConsumer:
        """One that consumes from these queues, and perhaps from more."""
        pools = (pool for pool in list(self._consumers) if pool.issuperset(queues))
        return self._consumer([*next(pools, queues)])

    def _consumer(self, queues: Sequence[str]) -> ShardConsumer:
        pool = frozenset(queues)
        consumer = self._consumers.get(pool)
        if consumer is None:
            consumer = self._consumers[pool] = ShardConsumer(self._shards.all, queues)
        return consumer

    def lost_replies(self, identity: str, queue: str, known: Collection[Delivery], thorough: bool) -> list[Delivery]:
        """Looks thoroughly where a shard has cut a consume short, because the caller has not seen that error."""
        lost: list[Delivery] = []
        consumer = self._consumer_of([queue])
        for shard in self._shards.all:
            if shard.away:
                continue
            ours = [one for one in known if one.receipt == shard.number]
            thorough_here = thorough or (shard, queue) in consumer.cut_short
            try:
                found = shard.broker.transport.lost_replies(identity, queue, ours, thorough_here)
            except BrokerError as error:
                shard.failed(error)
                consumer.cut_short.add((shard, queue))
                continue
            consumer.cut_short.discard((shard, queue))
            for one in found:
                one.receipt = shard.number
            lost += found
        return lost

    def settle(self, batch: Batch) -> Sequence[Settled]:
        return self._settlement.settle(batch)

    def paused(self) -> set[str]:
        return {queue for told in self._shards.answers(lambda broker: broker.transport.paused()) for queue in told}

    def wake(self, queue: str) -> None:
        for pool, consumer in list(self._consumers.items()):
            if queue in pool:
                consumer.wake()

    def _on_return(self) -> None:
        self._moves.relay.wake()  # jobs may wait to move from there, or to there
        for consumer in list(self._consumers.values()):
            consumer.wake()

    def close(self) -> None:
        for consumer in list(self._consumers.values()):
            consumer.close()
