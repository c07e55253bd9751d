"""Queues in Redis: publishes, consumes and settles jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from goworkers_py.brokers.contracts.transport import Batch, Push, Settled, Transport
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.consumer import Consumer, QueueConsumer
from goworkers_py.brokers.redis.exchange import Argument, RedisCommand, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.pool_consumer import PoolConsumer
from goworkers_py.brokers.redis.settlement import REMOVE, Settlement, Target
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import DONE, Dead, Discard, Done, Keep, Outcome, Requeue, Reschedule, Retry
from goworkers_py.policy.priorities import Ask

# A longer in-progress list is counted first, and read only when it holds more jobs than the process knows.
MOST_READ_UNCOUNTED = 1_000


class RedisTransport(Transport):
    """Finds a delivery again by its identity, which names the in-progress list, and by its exact bytes."""

    # How long a fetch waits on the server. A connection that died unnoticed can take a job for this long at most.
    block_s: float = 2

    def __init__(self, connections: Connections, keys: Keys, settlement: Settlement) -> None:
        self._connections = connections
        self._keys = keys
        self._settlement = settlement
        # By the queues that are consumed together. The fetcher's thread of these queues adds their entry; `wake` reads
        # in any thread. Each dict operation is one step.
        self._consumers: dict[frozenset[str], Consumer] = {}

    def publish(self, pushes: Sequence[Push]) -> None:
        self._connections.transaction(list(_push_commands(self._keys, pushes)))

    # --- consuming

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        return self._consumer([queue for queue, _ in asks]).consume(identity, asks, limit, wait_s)

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        return self._consumer_of(queues).end_waits(queues)

    def _consumer_of(self, queues: Sequence[str]) -> Consumer:
        """One that consumes from these queues, and perhaps from more."""
        pools = (pool for pool in list(self._consumers) if pool.issuperset(queues))
        return self._consumer([*next(pools, queues)])

    def _consumer(self, queues: Sequence[str]) -> Consumer:
        pool = frozenset(queues)
        consumer = self._consumers.get(pool)
        if consumer is None:
            made = (self._connections, self._keys, self.block_s)
            consumer = QueueConsumer(*made, *pool) if len(pool) == 1 else PoolConsumer(*made, queues)
            self._consumers[pool] = consumer
        return consumer

    def lost_replies(self, identity: str, queue: str, known: Collection[Delivery], thorough: bool) -> list[Delivery]:
        """The payloads of the in-progress list that are not in `known`, oldest first."""
        key, line = self._keys.inprogress(queue, identity), self._consumer_of([queue]).line
        ours = Counter(delivery.payload for delivery in known if delivery.identity == identity)
        # `known` still counts jobs that were settled meanwhile. They may hide as many lost ones until a later look.
        if not thorough and len(known) > MOST_READ_UNCOUNTED and int(line.call("LLEN", key)) <= ours.total():
            return []
        lost = []
        for payload in reversed(line.call("LRANGE", key, 0, -1)):
            if ours[payload] > 0:
                ours[payload] -= 1
            else:
                lost.append(Delivery(payload, queue, identity))
        return lost

    def paused(self) -> set[str]:
        return {text(name) for name in self._connections.call("SMEMBERS", self._keys.paused)}

    def wake(self, queue: str) -> None:
        for pool, consumer in list(self._consumers.items()):
            if queue in pool:
                consumer.wake()

    # --- settling

    def settle(self, batch: Batch) -> list[Settled]:
        items = [
            (delivery.identity, delivery.payload, REMOVE if outcome is DONE else _target(outcome))
            for delivery, outcome in batch.finished
        ]
        return self._settlement.settle(batch.settler, batch.number, batch.queue, items, batch.oldest_stay)

    # --- the end

    def end_lines(self) -> bool:
        """Closes the connections of the fetchers. True when nothing that they sent can still reach the server."""
        ended = [line.end() for consumer in list(self._consumers.values()) for line in consumer.lines()]
        return all(ended)

    def close(self) -> None:
        for consumer in list(self._consumers.values()):
            consumer.close()


def _target(outcome: Outcome) -> Target:
    """The step of settle.lua for an outcome, with a score and a payload where the step needs them."""
    match outcome:
        case Done():
            return REMOVE
        case Retry(at, payload):
            return "retry", at, payload
        case Reschedule(at, payload):
            return "schedule", at, payload
        case Dead(payload):
            return "dead", 0, payload
        case Discard():
            return "fail", 0, b""
        case Requeue(last):
            return ("back" if last else "front"), 0, b""
        case Keep():
            raise ValueError("a delivery that is kept is not settled")


def _push_commands(keys: Keys, pushes: Sequence[Push]) -> Iterator[RedisCommand]:
    now: dict[str, list[Argument]] = {}
    later: list[Argument] = []
    for push in pushes:
        if push.at is None:
            now.setdefault(push.queue, []).append(push.payload)
        else:
            later += (push.at, push.payload)
    if now:
        yield ("SADD", keys.queues, *now)
    for queue, payloads in now.items():
        yield ("LPUSH", keys.queue(queue), *payloads)
    if later:
        yield ("ZADD", keys.schedule, *later)
