"""Publishes, consumes and settles jobs in RabbitMQ.

A settlement publishes first what the outcome says (a retry, a dead job, the pushes of the job), waits until that is
confirmed, and acknowledges second. A process that is killed between the two leaves the job unacknowledged, and it is
delivered again: it runs twice. Nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from goworkers_py.brokers.contracts.transport import Published, PublishResult, Settled, SettlementBatch, Transport
from goworkers_py.brokers.rabbitmq.consumer import RabbitConsumer
from goworkers_py.brokers.rabbitmq.death_clues import RabbitDeathClues, name_clues
from goworkers_py.brokers.rabbitmq.names import DUE, Names, RabbitMessage
from goworkers_py.brokers.rabbitmq.publisher import RabbitPublisher
from goworkers_py.brokers.rabbitmq.returns import DeliveryLimits, Returns
from goworkers_py.brokers.rabbitmq.settlement import RabbitSettlement
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import ID_LIFE_S, Push
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.policy.priorities import Ask

# A job that is due so soon is run at once.
EARLY_S = 0.1
# One that could not go to the next step tries again after this time.
LEAVE_AGAIN_S = 2.0
# With so many of them a pool takes no more jobs: they would fill the memory.
MOST_LEAVING = 10_000
MOST_IDS = 100_000


class RabbitTransport(Transport):
    def __init__(self, parameters: Any, names: Names, leaves_clues: bool = True) -> None:
        self._parameters, self._names = parameters, names
        self._publisher = RabbitPublisher(parameters, names)
        self._returns = Returns()
        self._limits = DeliveryLimits(names)
        self._settlement = RabbitSettlement(self._publisher, names, self._returns)
        self.clues = RabbitDeathClues(self._publisher, names) if leaves_clues else None
        # By each of their queues. Changed by fetchers' threads, one for each pool, in single steps.
        self._consumers: dict[str, RabbitConsumer] = {}
        self._woken: set[str] = set()  # queues that were woken before their first consume
        self._ids: dict[str, float] = {}  # of pushes that this process has published, with their time (monotonic)
        self._most_ids = MOST_IDS  # when there are more, those that are too old are dropped

    # --- publishing

    def publish(self, pushes: Sequence[Push]) -> list[PublishResult]:
        fresh = [*self._unknown(pushes)]
        asked = [at for at, new in enumerate(fresh) if new]
        try:
            self._publisher.publish([self._message(pushes[at]) for at in asked])
        except BrokerError as error:
            error.within(asked, ())
            self._ids.update((pushes[at].id, machine.monotonic()) for at in error.places if pushes[at].id)
            raise
        now = machine.monotonic()
        self._ids.update((push.id, now) for push in pushes if push.id)
        return [Published.PUSHED if new else Published.DUPLICATE for new in fresh]

    def _unknown(self, pushes: Sequence[Push]) -> Iterator[bool]:
        """For each push whether this process has published none with its id within a day."""
        long_ago = machine.monotonic() - ID_LIFE_S
        if len(self._ids) > self._most_ids:
            self._drop_ids(long_ago)
        seen = set[str]()
        for push in pushes:
            if push.ties:
                raise BrokerRefused(
                    "RabbitMQ keeps no records, locks, batches, groups and limits: push such jobs to a partition "
                    "on Redis"
                )
            yield not push.id or not (self._ids.get(push.id, long_ago) > long_ago or push.id in seen)
            seen.add(push.id)

    def _drop_ids(self, long_ago: float) -> None:
        """Of other threads, each use of an id is one step."""
        for name in [name for name, at in self._ids.copy().items() if at <= long_ago]:
            self._ids.pop(name, None)
        self._most_ids = max(MOST_IDS, 2 * len(self._ids))  # else each push would look at all of them

    def _message(self, push: Push) -> RabbitMessage:
        name = self._names.of(push.queue)
        return self._names.later(name, push.payload, push.at or 0.0, machine.time())

    # --- consuming

    def consume(self, identity: str, asks: Sequence[Ask], limit: int, wait_s: float = math.inf) -> list[Delivery]:
        consumer = self._consumer([queue for queue, _ in asks])
        if consumer.leaving and machine.monotonic() >= consumer.leave_at:
            self._leave(consumer)
        if len(consumer.leaving) >= MOST_LEAVING:
            asks = [(queue, 0) for queue, _ in asks]
        return self._to_run(consumer, consumer.consume(identity, asks, limit, wait_s))

    def _to_run(self, consumer: RabbitConsumer, taken: list[Delivery]) -> list[Delivery]:
        """Without the jobs whose time takes several steps, which go to the next step, and without those that have ended
        here before they came again."""
        leaving: dict[Delivery, Callable[[], Sequence[RabbitMessage]]] = {}
        for delivery in taken:
            if delivery.again and (left := self._returns.end_of(delivery)) is not None:
                leaving[delivery] = partial(_same, left)
                continue
            if delivery.again and delivery.properties is not None:
                self._limits.look(delivery, delivery.properties.headers, consumer.version)
            if not (headers := delivery.receipt.headers):
                continue
            if self.clues is not None:
                name_clues(delivery, headers)
            self._limits.look(delivery, headers, consumer.version)
            if _is_early(headers):
                leaving[delivery] = partial(self._next_step, delivery)
        if not leaving:
            return taken
        consumer.leaving.update(leaving)
        self._leave(consumer)
        return [delivery for delivery in taken if delivery not in leaving]

    def _next_step(self, delivery: Delivery) -> Sequence[RabbitMessage]:
        due = delivery.receipt.headers[DUE] / 1000
        return [self._names.later(self._names.of(delivery.queue), delivery.payload, due, machine.time())]

    def _leave(self, consumer: RabbitConsumer) -> None:
        self._settlement.leave(consumer.leaving)
        consumer.leave_at = machine.monotonic() + LEAVE_AGAIN_S

    def _consumer(self, queues: Sequence[str]) -> RabbitConsumer:
        known = self._consumers.get(queues[0])
        if known is None:
            known = RabbitConsumer(self._parameters, self._names, self._returns)
            if not self._woken.isdisjoint(queues):
                known.wake()
            for queue in queues:
                self._consumers[queue] = known
        return known

    def end_waits(self, queues: Sequence[str]) -> list[Delivery]:
        known = self._consumers.get(queues[0])
        return self._to_run(known, known.end_waits(queues)) if known is not None else []

    def lost_replies(self, identity: str, queue: str, known: Collection[Delivery], thorough: bool) -> list[Delivery]:
        return []  # RabbitMQ delivers what was lost again

    def paused(self) -> set[str]:
        """No queue is paused. It is asked twice a second, so it tells of a lost connection too."""
        self._publisher.check()
        return set()

    def wake(self, queue: str) -> None:
        known = self._consumers.get(queue)
        if known is None:
            self._woken.add(queue)
        else:
            known.wake()

    # --- settling

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        return self._settlement.settle(batch)

    def close(self) -> None:
        if self.clues is not None:
            self.clues.take_all_back()
        for consumer in {id(consumer): consumer for consumer in self._consumers.values()}.values():
            consumer.close()
        self._publisher.close()


def _same(messages: Sequence[RabbitMessage]) -> Sequence[RabbitMessage]:
    return messages


def _is_early(headers: Any) -> bool:
    due = headers.get(DUE)
    return isinstance(due, int) and due / 1000 > machine.time() + EARLY_S
