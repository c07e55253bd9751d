"""Queues in Redis: publishes, consumes and settles jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain

from goworkers_py.brokers.contracts.transport import (
    Finished,
    Published,
    PublishResult,
    Settled,
    SettlementBatch,
    Transport,
    Unwritable,
)
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Argument, RedisCommand, Script, text
from goworkers_py.brokers.redis.driver.fencing import FencedConnections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import tie_kinds
from goworkers_py.brokers.redis.queues.consumer import QueueConsumer, RedisConsumer
from goworkers_py.brokers.redis.queues.places import rows
from goworkers_py.brokers.redis.queues.push_arguments import RESULT, RESULTS, push_arguments
from goworkers_py.brokers.redis.queues.row_effects import row_effect
from goworkers_py.brokers.redis.queues.settlement import Item, RedisSettlement, target_of
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import Effect, Push, by_place
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.holder import Conflict, How, holder_of
from goworkers_py.core.levels import bare_list_of
from goworkers_py.core.outcome import DONE, NOT_SETTLED, Done
from goworkers_py.policy.priorities import Ask
from goworkers_py.wire.failure import error_class, error_text

# A longer in-progress list is counted first, and read only when it holds more jobs than the process knows.
MOST_READ_UNCOUNTED = 1_000

_PUBLISH = Script(LUA / "publish.lua", RESULTS)
_RESULTS = {1: Published.PUSHED, 0: Published.DUPLICATE, -1: Published.REFUSED}
_HOWS: dict[str, How] = {"held": "held", "replaced": "replaced", "rescheduled": "rescheduled"}


class RedisTransport(Transport):
    """Finds a delivery again by its identity, which names the in-progress list, and by its exact bytes."""

    # How long a fetch waits on the server. A connection that died unnoticed can take a job for this long at most.
    block_s: float = 5

    def __init__(self, connections: Connections, keys: Keys, settlement: RedisSettlement) -> None:
        self._connections = connections
        self._keys = keys
        self._settlement = settlement
        # By the queues that are consumed together. The fetcher's thread of these queues adds their entry; `wake` reads
        # in any thread. Each dict operation is one step.
        self._consumers: dict[frozenset[str], RedisConsumer] = {}

    def publish(self, pushes: Sequence[Push]) -> Sequence[PublishResult]:
        for push in pushes:  # any() takes twice as long for one
            if push.tied:
                return self._publish_tied(pushes)
        commands = list(_push_commands(self._keys, pushes))
        if len(commands) <= 2:
            # One queue needs no transaction. If LPUSH fails, SADD has named an empty queue, which does no harm. If only
            # SADD fails, the next push names the queue.
            self._connections.only_last(commands)
        else:
            try:
                self._connections.transaction(commands)
            except BrokerError as error:
                done = {commands[at][1] for at in error.places if commands[at][0] != "SADD"}
                keys = [self._keys.schedule if push.at is not None else self._keys.queue(push.queue) for push in pushes]
                error.places = frozenset(at for at, key in enumerate(keys) if key in done)
                raise
        return [Published.PUSHED] * len(pushes)

    def _publish_tied(self, pushes: Sequence[Push]) -> list[PublishResult]:
        ties = pushes[0].ties
        alone = tie_kinds()[type(ties[0])].alone if ties else None
        script, keys, arguments = (alone and alone(pushes, self._keys)) or self._call(pushes)
        reply = self._connections.script(script, keys, arguments)
        # A list around one answer would cost the server as much as three commands, see publish_one.lua.
        return [*map(_result, reply)] if script.fits is RESULTS else [_result(reply)]

    def _call(self, pushes: Sequence[Push]) -> tuple[Script, Sequence[str], Sequence[Argument]]:
        numbers: dict[str, int] = {}

        def number_of(key: str) -> int:
            return numbers.setdefault(key, len(numbers) + 1)

        now = machine.time()
        arguments = [*chain.from_iterable(push_arguments(push, self._keys, number_of, now) for push in pushes)]
        script = _script_of_one(pushes[0]) if len(pushes) == 1 else _PUBLISH
        return script, (self._keys.queues, self._keys.nothing, *numbers), arguments

    # --- consuming

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        return self._consumer([queue for queue, _ in asks]).consume(identity, asks, limit, wait_s)

    def leave_waits(self) -> None:
        self.leaves_waits = True

    def begin_waits(self, identity: str, asks: Sequence[Ask]) -> list[int]:
        consumer = self._consumer([queue for queue, _ in asks])
        return consumer.begin_waits(identity, [queue for queue, most in asks if most > 0])

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        return self._consumer_of(queues).end_waits(queues)

    def _consumer_of(self, queues: Sequence[str]) -> RedisConsumer:
        """One that consumes from these queues, and perhaps from more."""
        pools = (pool for pool in list(self._consumers) if pool.issuperset(queues))
        return self._consumer([*next(pools, queues)])

    def _consumer(self, queues: Sequence[str]) -> RedisConsumer:
        pool = frozenset(queues)
        consumer = self._consumers.get(pool)
        if consumer is None:
            for queue in queues:
                if bare_list_of(queue):
                    self._take_up(queue)
            consumer = self._consumers[pool] = self._new_consumer(queues)
        return consumer

    def _new_consumer(self, queues: Sequence[str]) -> RedisConsumer:
        made = (self._connections, self._keys, self.block_s)
        if isinstance(self._connections, FencedConnections):
            from goworkers_py.brokers.redis.queues.fenced_consumer import FencedConsumer

            return FencedConsumer(*made)
        if len(queues) == 1 and not self.leaves_waits:
            return QueueConsumer(*made, *queues)
        from goworkers_py.brokers.redis.queues.pool_consumer import PoolConsumer

        return PoolConsumer(*made, queues)

    def _take_up(self, queue: str) -> None:
        """Names a list of another program among the queues. A release before 0.4.0, which knows no such lists, recovers
        bodies into a queue of the level's own name: these go back into the list."""
        self._connections.call("SADD", self._keys.queues, queue)
        strays = self._keys.own_queue(queue)
        while self._connections.call("RPOPLPUSH", strays, self._keys.queue(queue)) is not None:
            pass

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

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        try:
            return self._settle(batch)
        except BrokerError:
            raise
        except Exception:
            # Nothing was sent: no command could be made, because of some deliveries perhaps. Sent again under its
            # number, the batch leaves out the same ones.
            flaws = {} if any(isinstance(outcome, NOT_SETTLED) for _, outcome in batch.finished) else self._flaws(batch)
            if not flaws:
                raise
        others = [pair for pair in batch.finished if pair[0] not in flaws]
        results: Iterator[Settled] = iter(self._settle(replace(batch, finished=others)) if others else ())
        return [flaws[delivery] if delivery in flaws else next(results) for delivery, _ in batch.finished]

    def _flaws(self, batch: SettlementBatch) -> dict[Delivery, Unwritable]:
        found = {}
        for delivery, outcome in batch.finished:
            try:
                item = Item(delivery.queue, delivery.identity, delivery.payload, target_of(outcome), outcome.effects)
                flaw = self._settlement.flaw(item)
            except Exception as error:  # it is no outcome
                flaw = f"{error_class(error)}: {error_text(error)}"
            if flaw:
                found[delivery] = Unwritable(flaw)
        return found

    def _settle(self, batch: SettlementBatch) -> list[Settled]:
        leaving, others = dict(batch.finished), list[Finished]()
        effects: dict[Delivery, Effect] = {}
        for pair in [pair for pair in batch.finished if pair[1] is not DONE]:
            delivery, outcome = pair
            if (effect := row_effect(outcome)) is not None:
                effects[delivery] = effect
            elif type(outcome) is not Done or outcome.effects:
                others.append(pair)
                del leaving[delivery]
        removed = list(rows(leaving, batch.held))
        old = set(batch.held[: len(batch.held) // 2 + 1]) if others else ()
        items = [
            Item(
                delivery.queue,
                delivery.identity,
                delivery.payload,
                target_of(outcome),
                outcome.effects,
                bool(batch.held) and delivery not in old,
            )
            for delivery, outcome in others
        ]
        not_settled = self._settlement.settle(batch.settler, batch.number, removed, items, effects)
        if not not_settled:
            return [True] * len(batch.finished)
        sent = [*chain.from_iterable(row.deliveries for row in removed), *(delivery for delivery, _ in others)]
        results = {delivery: not_settled.get(at, True) for at, delivery in enumerate(sent)}
        return [results[delivery] for delivery, _ in batch.finished]

    # --- the end

    def end_lines(self) -> bool:
        """Closes the connections of the fetchers. True when nothing that they sent can still reach the server."""
        ended = [line.end() for consumer in list(self._consumers.values()) for line in consumer.lines()]
        return all(ended)

    def close(self) -> None:
        for consumer in list(self._consumers.values()):
            consumer.close()


@cache
def _publish_one(word: str = "") -> Script:
    """For a push that has a single tie, or several of those that take back what they have written."""
    words = {word} if word else {tie.word for tie in tie_kinds().values() if tie.takes_back}
    return Script(LUA / "publish_one.lua", RESULT, words=words)


def _script_of_one(push: Push) -> Script:
    """A try before the push would cost the server more than the push."""
    kinds, ties = tie_kinds(), push.ties
    for tie in ties:
        if not kinds[type(tie)].takes_back:
            return _PUBLISH
    return _publish_one(kinds[type(ties[0])].word) if len(ties) == 1 and not push.id else _publish_one()


def _result(reply: int | Sequence[bytes]) -> PublishResult:
    if isinstance(reply, int):
        return _RESULTS[reply]
    how, *holder = map(text, reply)
    return Conflict(holder_of(*holder), _HOWS[how])


def _push_commands(keys: Keys, pushes: Sequence[Push]) -> Iterator[RedisCommand]:
    now, later = by_place(pushes)
    if now:
        yield ("SADD", keys.queues, *now)
    for queue, payloads in now.items():
        yield ("LPUSH", keys.queue(queue), *payloads)
    if later:
        yield ("ZADD", keys.schedule, *later)
