"""Settles deliveries: publishes first what their outcomes say, and acknowledges second."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from goworkers_py.brokers.contracts.transport import Batch, Finished, Settled, refuse_late
from goworkers_py.brokers.rabbitmq.consuming_link import ConsumingLink
from goworkers_py.brokers.rabbitmq.names import Message, Names
from goworkers_py.brokers.rabbitmq.publisher import Publisher, Request
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import PostJobs, Push, PushEcho, PushJobs
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerRefused, UnreadablePayload
from goworkers_py.core.levels import base_of, plain_list_of
from goworkers_py.core.outcome import DONE, REQUEUE, Dead, Keep, Outcome, Park, Requeue, Reschedule, Retry
from goworkers_py.wire import payload
from goworkers_py.wire.plain_message import wrapped


class Settlement:
    """Threads share it; each settler settles one batch at a time."""

    def __init__(self, publisher: Publisher, names: Names) -> None:
        self._publisher, self._names = publisher, names
        # By settler: the number and the results of its last batch. Each use is one step, as of the next one.
        self._done: dict[str, tuple[int, Sequence[Settled]]] = {}
        # Which messages of a delivery are confirmed, where others of its batch were not: it comes again, in
        # this batch or another one.
        self._confirmed: dict[Delivery, set[int]] = {}

    def settle(self, batch: Batch) -> Sequence[Settled]:
        if any(type(outcome) is Keep for _, outcome in batch.finished):
            raise ValueError("a delivery that is kept is not settled")
        number, results = self._done.get(batch.settler, (batch.number - 1, ()))
        refuse_late(batch.number, number)
        if number == batch.number:
            return results
        verdicts = [_verdict(delivery, outcome) for delivery, outcome in batch.finished]
        refused = self._publish(batch, verdicts)
        verdicts = [refused.get(one, verdict) for (one, _), verdict in zip(batch.finished, verdicts, strict=True)]
        results = [
            _release(delivery) if verdict is True else verdict
            for (delivery, _), verdict in zip(batch.finished, verdicts, strict=True)
        ]
        _acknowledge(one for one, result in zip(batch.finished, results, strict=True) if result is True)
        self._done[batch.settler] = (batch.number, results)
        return results

    def _publish(self, batch: Batch, verdicts: Sequence[Settled]) -> dict[Delivery, str]:
        """The deliveries of which a message is refused, and why: a queue is full, or the server low on memory."""
        asked = [
            (delivery, number, message)
            for (delivery, outcome), verdict in zip(batch.finished, verdicts, strict=True)
            if verdict is True and outcome is not DONE
            for number, message in enumerate(self._messages(delivery, outcome))
            if number not in self._confirmed.get(delivery, ())
        ]
        request = Request([message for _, _, message in asked])
        refused: dict[Delivery, str] = {}
        try:
            self._publisher.send(request)
        except BrokerError as error:
            for place, (delivery, number, _) in enumerate(asked):
                if place not in request.unconfirmed:
                    self._confirmed.setdefault(delivery, set()).add(number)
            if request.undecided and not isinstance(error, BrokerFull):
                raise  # the connection is lost, perhaps
            refused = {asked[place][0]: str(error) for place in request.unconfirmed}
        if self._confirmed:
            for delivery, _ in batch.finished:
                if delivery not in refused:
                    self._confirmed.pop(delivery, None)
        return refused

    def move(self, moves: Iterable[tuple[Delivery, Message]]) -> None:
        """Publishes a message in the place of each delivery. One that is not confirmed goes back to its queue."""
        moved = [(delivery, message) for delivery, message in moves if is_held(delivery)]
        request = Request([message for _, message in moved])
        try:
            self._publisher.send(request)
        finally:
            left = request.unconfirmed
            _acknowledge(
                (delivery, REQUEUE if place in left else DONE)
                for place, (delivery, _) in enumerate(moved)
                if _release(delivery)
            )

    def _messages(self, delivery: Delivery, outcome: Outcome) -> Iterator[Message]:
        for effect in outcome.effects:
            if isinstance(effect, PushJobs):
                yield from map(self._of_push, effect.pushes)
            elif isinstance(effect, PushEcho):
                yield Message(self._names.of(effect.queue), effect.payload)
        if isinstance(outcome, Retry | Reschedule):
            yield self._names.later(self._place(delivery, outcome.payload), outcome.payload, outcome.at, time.time())
        elif isinstance(outcome, Dead):
            yield Message(self._names.dead, outcome.payload)
        elif isinstance(outcome, Requeue) and not _goes_to_the_front(outcome):
            yield Message(self._names.of(_home(delivery)), outcome.payload or _as_job(delivery))

    def _place(self, delivery: Delivery, raw: bytes) -> str:
        """The queue in RabbitMQ that a payload names; that of its delivery, where RabbitMQ cannot have the name."""
        with suppress(BrokerRefused):
            if queue := _queue_of(raw):
                return self._names.of(queue)
        return self._names.of(_home(delivery))

    def _of_push(self, push: Push) -> Message:
        name = self._names.of(push.queue)
        return self._names.later(name, push.payload, push.at or 0.0, time.time())


def _verdict(delivery: Delivery, outcome: Outcome) -> Settled:
    """True where the delivery may be settled."""
    if not is_held(delivery):
        return False
    if isinstance(outcome, Park):
        return "RabbitMQ has no lines of limits: push such jobs to a partition on Redis"
    if any(isinstance(effect, PostJobs) for effect in outcome.effects):
        return "RabbitMQ has no outbox for pushes to another broker: push them outside of atomic"
    return True


def is_held(delivery: Delivery) -> bool:
    link: ConsumingLink = delivery.receipt.link
    return link.error is None and delivery.receipt.tag in link.held


def _release(delivery: Delivery) -> bool:
    link: ConsumingLink = delivery.receipt.link
    return link.held.pop(delivery.receipt.tag, None) is not None and link.error is None


def _acknowledge(finished: Iterable[Finished]) -> None:
    by_link: dict[ConsumingLink, tuple[list[int], list[int]]] = {}
    for delivery, outcome in finished:
        link, tag = delivery.receipt.link, delivery.receipt.tag
        done, back = by_link.setdefault(link, ([], []))
        (back if _goes_to_the_front(outcome) else done).append(tag)
    for link, (done, back) in by_link.items():
        link.finish(done, back)


def _goes_to_the_front(outcome: Outcome) -> bool:
    return isinstance(outcome, Requeue) and outcome.payload is None and not outcome.last


def _home(delivery: Delivery) -> str:
    """The queue for our own jobs, where the delivery came from a queue of other programs; else its queue."""
    return base_of(delivery.queue) if plain_list_of(delivery.queue) else delivery.queue


def _as_job(delivery: Delivery) -> bytes:
    if not plain_list_of(delivery.queue):
        return delivery.payload
    return wrapped(delivery.payload, _home(delivery), time.time(), delivery.properties)


def _queue_of(raw: bytes) -> str:
    """The queue that a payload names; empty where it names none."""
    try:
        queue = payload.read(raw).get("queue")
    except UnreadablePayload:
        return ""
    return queue if isinstance(queue, str) else ""
