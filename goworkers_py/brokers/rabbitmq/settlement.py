"""Settles deliveries: publishes first what their outcomes say, and acknowledges second."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import repeat, starmap
from queue import Empty

from goworkers_py.brokers.contracts.transport import (
    Finished,
    Settled,
    SettlementBatch,
    Unwritable,
    refuse_late,
    settled_with,
)
from goworkers_py.brokers.rabbitmq.consuming_connection import ConsumingConnection, Flow
from goworkers_py.brokers.rabbitmq.consuming_connection import Finished as FinishedFlow
from goworkers_py.brokers.rabbitmq.names import Names, RabbitMessage
from goworkers_py.brokers.rabbitmq.publisher import RabbitPublisher, RabbitRequest, TooLarge, again
from goworkers_py.brokers.rabbitmq.returns import Returns, is_held
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.effect import PostJobs, Push, PushJobs
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerRefused, BrokerUnavailable, UnreadablePayload
from goworkers_py.core.levels import bare_list_of, base_of
from goworkers_py.core.outcome import DONE, NOT_SETTLED, REQUEUE, Dead, Outcome, Park, Requeue, Reschedule, Retry
from goworkers_py.policy.bodies import job_of_body
from goworkers_py.wire import payload

log = logging.getLogger(__name__)

# A batch waits for confirmations as long as RabbitMQ answers something within this time. A delivery that has none by
# then gets an error, so that it holds up no other; it comes again later, and is not published again while the
# connection lives.
PATIENCE_S = 3.0
# A queue that lets a message wait for longer is not waited for again meanwhile.
SLOW_S = 1.0
LONGEST_S = 60.0  # however much it answers
HASTE_S = 0.2  # in the fetcher's thread


class _Leaving:
    """The messages of a delivery that ends, and how far they have got. One settler's thread at a time uses it."""

    def __init__(self) -> None:
        self.confirmed = set[int]()  # messages, by their places among those of the delivery
        self.request: RabbitRequest | None = None  # on its way
        self.asked_at = 0.0  # monotonic
        self._asked: Sequence[int] = ()  # the places of the messages of `request`

    def ask(self, messages: Sequence[RabbitMessage], over: machine.SimpleQueue[RabbitRequest]) -> RabbitRequest:
        """The request for what is not confirmed. Messages of later tries are to be published with a shorter delay."""
        self._asked = [place for place in range(len(messages)) if place not in self.confirmed]
        self.request = RabbitRequest([messages[place] for place in self._asked], over)
        self.asked_at = machine.monotonic()
        return self.request

    def look(self) -> BrokerError | None:
        """Notes what is confirmed. Returns the error of a request that has ended."""
        request = self.request
        if request is None:
            return None
        is_over = request.is_over  # first: what is confirmed after this step is seen by the next look
        unconfirmed = request.unconfirmed.copy()
        self.confirmed.update(place for at, place in enumerate(self._asked) if at not in unconfirmed)
        if not is_over:
            return None
        self.request = None
        return request.error


class RabbitSettlement:
    """Threads share it; each settler settles one batch at a time."""

    def __init__(self, publisher: RabbitPublisher, names: Names, returns: Returns) -> None:
        self._publisher, self._names, self._returns = publisher, names, returns
        # By settler: the number and the results of its last batch, which are not all there when it raised. Each use is
        # one step, as of the next one.
        self._done: dict[str, tuple[int, dict[Delivery, Settled]]] = {}
        # Deliveries whose messages are not all confirmed: they come again, in this batch or another one.
        self._leaving: dict[Delivery, _Leaving] = {}

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        if any(isinstance(outcome, NOT_SETTLED) for _, outcome in batch.finished):
            raise ValueError("no broker settles an outcome of NOT_SETTLED")
        number, results = self._done.get(batch.settler, (batch.number - 1, {}))
        refuse_late(batch.number, number)
        if number != batch.number:
            results = {}
            self._done[batch.settler] = batch.number, results
        left = [pair for pair in batch.finished if pair[0] not in results]
        if publishing := self._settle_others(left, results):
            self._publish(publishing, results)
        return [results[delivery] for delivery, _ in batch.finished]

    def _settle_others(
        self, finished: Sequence[Finished], results: dict[Delivery, Settled]
    ) -> dict[Delivery, tuple[Outcome, Sequence[RabbitMessage]]]:
        """Settles those that leave nothing, and those that cannot be settled here. Returns the others, with what they
        leave."""
        publishing: dict[Delivery, tuple[Outcome, Sequence[RabbitMessage]]] = {}
        leave_nothing = list[Finished]()
        for delivery, outcome in finished:
            held = is_held(delivery)
            if outcome is DONE and held:
                leave_nothing.append((delivery, outcome))
            elif not held and self._returns.loses(delivery, self._left_behind(delivery, outcome)):
                results[delivery] = False
                self._leaving.pop(delivery, None)
            else:
                try:
                    messages = self.messages(delivery, outcome)
                except Exception as error:  # what it says is no payload, no name or no time
                    results[delivery] = settled_with(error)
                    continue
                if messages:
                    publishing[delivery] = outcome, messages
                else:
                    leave_nothing.append((delivery, outcome))
        self._end(leave_nothing, results)
        return publishing

    def _end(self, finished: Sequence[Finished], results: dict[Delivery, Settled]) -> None:
        for delivery, outcome in finished:
            # The messages of the outcome are confirmed: a delivery that comes again is done.
            results[delivery] = self._returns.release(delivery, None if _goes_to_the_front(outcome) else ())
        _acknowledge(pair for pair in finished if results[pair[0]] is True)

    def _left_behind(self, delivery: Delivery, outcome: Outcome) -> Sequence[RabbitMessage] | None:
        """The messages that the end of a lost delivery leaves; None if the job is to run again."""
        if _goes_to_the_front(outcome):
            return None
        try:
            return self.messages(delivery, outcome)
        except Exception:  # it cannot be settled so: the settler finds another outcome after the next run
            return None

    def _publish(
        self,
        publishing: Mapping[Delivery, tuple[Outcome, Sequence[RabbitMessage]]],
        results: dict[Delivery, Settled],
        hasty: bool = False,
    ) -> None:
        """Publishes what deliveries leave, and acknowledges each as soon as all of it is confirmed: one that is not
        acknowledged comes again with its process. Raises when the connection was lost."""
        over: machine.SimpleQueue[RabbitRequest] = machine.SimpleQueue()
        fresh: dict[RabbitRequest, Delivery] = {}
        for delivery, (_, messages) in publishing.items():
            leaving = self._leaving.setdefault(delivery, _Leaving())
            leaving.look()
            if leaving.request is None and len(leaving.confirmed) < len(messages):
                fresh[leaving.ask(messages, over)] = delivery
        try:
            self._publisher.begin([*fresh])
        except BaseException:
            for request in fresh:  # else it would be taken for one that is on its way
                request.end(BrokerUnavailable("not published"))
            raise
        errors = list[BrokerError]()

        def look(deliveries: Iterable[Delivery]) -> None:
            found = {delivery: self._look(delivery, publishing[delivery][1]) for delivery in deliveries}
            self._end(
                [(delivery, publishing[delivery][0]) for delivery, error in found.items() if error is None], results
            )
            results.update((delivery, error) for delivery, error in found.items() if isinstance(error, str))
            errors.extend(error for error in found.values() if isinstance(error, BrokerError))

        look(publishing.keys() - fresh.values())
        seen = set[Delivery]()
        for ended in self._await([*fresh], over, hasty):
            seen |= (now := {fresh[request] for request in ended})
            look(now)
        look({*fresh.values()} - seen)
        if errors:
            raise again(errors[0])

    def _look(self, delivery: Delivery, messages: Sequence[RabbitMessage]) -> str | BrokerError | None:
        """None when all messages of the delivery are confirmed; the error of a lost connection; or else a text."""
        leaving = self._leaving[delivery]
        error = leaving.look()
        if len(leaving.confirmed) == len(messages):
            del self._leaving[delivery]
            return None
        if isinstance(error, TooLarge):
            del self._leaving[delivery]
            return Unwritable(error)
        if error is None or isinstance(error, BrokerFull | BrokerRefused):
            return str(error or self._publisher.unconfirmed(messages))
        return error

    def _await(
        self, fresh: Sequence[RabbitRequest], over: machine.SimpleQueue[RabbitRequest], hasty: bool
    ) -> Iterator[list[RabbitRequest]]:
        """Yields the requests that are over, as they come. Waits for no queue that already lets a message wait."""
        ours = {*fresh}
        long_ago = machine.monotonic() - SLOW_S
        others = [leaving.request for leaving in list(self._leaving.values()) if leaving.asked_at < long_ago]
        on_their_way = [request for request in others if request and not request.is_over and request not in ours]
        slow = {message.queue for request in on_their_way for message in request.messages}
        awaited = {request for request in fresh if slow.isdisjoint(message.queue for message in request.messages)}
        patience_s, longest_s = (HASTE_S, HASTE_S) if hasty else (PATIENCE_S, LONGEST_S)
        before, last = -1, machine.monotonic() + longest_s
        while awaited and machine.monotonic() < last and before != (heard := sum(request.heard for request in awaited)):
            before, give_up_at = heard, min(last, machine.monotonic() + patience_s)
            while awaited and (left_s := give_up_at - machine.monotonic()) > 0:
                with suppress(Empty):
                    ended = [over.get(timeout=left_s)]
                    ended.extend(starmap(over.get_nowait, repeat((), over.qsize())))
                    awaited.difference_update(ended)
                    yield ended

    def leave(self, leaving: dict[Delivery, Callable[[], Sequence[RabbitMessage]]]) -> None:
        """Publishes messages in the place of deliveries, and takes those out that are done. The others stay in
        progress: they are to be left again. In the fetcher's thread, so it does not wait for long."""
        for delivery in [delivery for delivery in leaving if not is_held(delivery)]:
            self._drop(delivery, leaving)
        results: dict[Delivery, Settled] = {}
        try:
            self._publish({delivery: (DONE, messages()) for delivery, messages in leaving.items()}, results, hasty=True)
        except BrokerError as error:
            log.debug("messages that take the place of jobs are tried again: %s", error)
        except Exception:  # it must not keep the fetcher from its jobs
            log.exception("messages that take the place of jobs are tried again")
        for delivery, result in results.items():
            if isinstance(result, bool):
                if result:
                    self._returns.forget(delivery)
                self._drop(delivery, leaving)
            elif isinstance(result, Unwritable):  # it runs again, and the settler finds another outcome
                self._returns.forget(delivery)
                self._end([(delivery, REQUEUE)], {})
                self._drop(delivery, leaving)

    def _drop(self, delivery: Delivery, leaving: dict[Delivery, Callable[[], Sequence[RabbitMessage]]]) -> None:
        """When it comes again, nobody has it here."""
        del leaving[delivery]
        self._leaving.pop(delivery, None)
        self._returns.loses(delivery, None)

    def messages(self, delivery: Delivery, outcome: Outcome) -> Sequence[RabbitMessage]:
        """Raises what stands in the way of one of them."""
        if isinstance(outcome, Park):
            raise BrokerRefused("RabbitMQ has no lines of limits: push such jobs to a partition on Redis")
        if any(isinstance(effect, PostJobs) for effect in outcome.effects):
            raise BrokerRefused("RabbitMQ has no outbox for pushes to another broker: push them outside of atomic")
        messages = [*self._left_by(delivery, outcome)]
        if not all(isinstance(message.body, bytes) for message in messages):
            raise TypeError("a payload is no bytes")
        return messages

    def _left_by(self, delivery: Delivery, outcome: Outcome) -> Iterator[RabbitMessage]:
        for effect in outcome.effects:
            if isinstance(effect, PushJobs):
                yield from map(self._of_push, effect.pushes)
        if isinstance(outcome, Retry | Reschedule):
            yield self._names.later(self._place(delivery, outcome.payload), outcome.payload, outcome.at, machine.time())
        elif isinstance(outcome, Dead):
            yield RabbitMessage(self._names.dead, outcome.payload)
        elif isinstance(outcome, Requeue) and not _goes_to_the_front(outcome):
            yield RabbitMessage(self._names.of(_home(delivery)), outcome.payload or _as_job(delivery))

    def _place(self, delivery: Delivery, raw: bytes) -> str:
        """The queue in RabbitMQ that a payload names; that of its delivery, where RabbitMQ cannot have the name."""
        with suppress(BrokerRefused):
            if queue := _queue_of(raw):
                return self._names.of(queue)
        return self._names.of(_home(delivery))

    def _of_push(self, push: Push) -> RabbitMessage:
        name = self._names.of(push.queue)
        return self._names.later(name, push.payload, push.at or 0.0, machine.time())


def _acknowledge(finished: Iterable[Finished]) -> None:
    by_flow: dict[Flow, tuple[list[int], list[int]]] = {}
    for delivery, outcome in finished:
        flow, tag, _ = delivery.receipt
        done, back = by_flow.setdefault(flow, ([], []))
        (back if _goes_to_the_front(outcome) else done).append(tag)
    by_connection: dict[ConsumingConnection, list[FinishedFlow]] = {}
    for flow, tags in by_flow.items():
        by_connection.setdefault(flow.connection, []).append((flow, *tags))
    for connection, together in by_connection.items():
        connection.finish(together)


def _goes_to_the_front(outcome: Outcome) -> bool:
    return isinstance(outcome, Requeue) and outcome.payload is None and not outcome.last


def _home(delivery: Delivery) -> str:
    """The queue for our own jobs, where the delivery came from a queue of other programs; else its queue."""
    return base_of(delivery.queue) if bare_list_of(delivery.queue) else delivery.queue


def _as_job(delivery: Delivery) -> bytes:
    if not bare_list_of(delivery.queue):
        return delivery.payload
    return job_of_body(delivery.payload, _home(delivery), machine.time(), delivery.properties)


def _queue_of(raw: bytes) -> str:
    """The queue that a payload names; empty where it names none."""
    try:
        queue = payload.read(raw).get("queue")
    except UnreadablePayload:
        return ""
    return queue if isinstance(queue, str) else ""
