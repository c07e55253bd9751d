"""Jobs whose messages come again while this process runs them, or after it has ended them.

RabbitMQ delivers a job again when it has lost the first delivery: its connection or channel ended, or the job ran past
the consumer timeout. When the message comes to this process again, a job that still runs goes on, and is acknowledged
by the new delivery. A job that has ended is acknowledged without another run. Both are known by the id of the message,
so this holds for messages that have one: all that pyworkers publishes. Another process runs the job that it gets.

From RabbitMQ 4 on a quorum queue has a limit of 20 deliveries, unless it was declared with another one, as pyworkers
does. pyworkers does not declare a queue of others again: RabbitMQ would refuse other arguments. A policy helps, and
`DeliveryLimits` warns.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import simplejson

from goworkers_py.brokers.rabbitmq.names import Names, RabbitMessage
from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery

if TYPE_CHECKING:
    from goworkers_py.brokers.rabbitmq.consuming_connection import Flow

log = logging.getLogger(__name__)

MOST_ENDS = 1_000
COUNT = "x-delivery-count"
# Half of the way to the limit of RabbitMQ.
WARNED_FROM = 10
HIGH = 1_000_000
Name = tuple[str, str, int]


class Returns:
    """The fetchers' threads and the settlers' share it. Only a delivery that was lost, or comes again, takes the
    lock."""

    def __init__(self) -> None:
        self._lock = machine.Lock()
        # The messages that unsettled ends leave, by the job's own message, the oldest first.
        self._ends: dict[Name, Sequence[RabbitMessage]] = {}

    def loses(self, delivery: Delivery, messages: Sequence[RabbitMessage] | None) -> bool:
        """Whether a delivery that seemed lost cannot be settled. Then its end is remembered, which leaves these
        messages; None: it has none."""
        with self._lock:
            if is_held(delivery):  # it has come again meanwhile
                return False
            if _take(delivery):
                self._remember(delivery, messages)
            return True

    def release(self, delivery: Delivery, messages: Sequence[RabbitMessage] | None) -> bool:
        """Takes a delivery whose outcome is written out of progress. False if it cannot be acknowledged."""
        flow, tag, _ = delivery.receipt
        held = not flow.loses and flow.held.pop(tag, None) is not None
        if held and not flow.loses:
            return True
        with self._lock:
            flow = delivery.receipt.flow
            held = _take(delivery) or held
            if held and flow.loses:
                self._remember(delivery, messages)
            return held and not flow.has_ended

    def _remember(self, delivery: Delivery, messages: Sequence[RabbitMessage] | None) -> None:
        if not delivery.message_id or messages is None:
            return
        self._ends[_name(delivery)] = messages
        while len(self._ends) > MOST_ENDS:
            del self._ends[next(iter(self._ends))]

    def goes_on(self, delivery: Delivery, flows: Iterable[Flow]) -> bool:
        """Whether a job that comes again runs here still: then this delivery is that of the run."""
        if not delivery.message_id:
            return False
        name = _name(delivery)
        with self._lock:
            for flow in flows:
                for running in list(flow.held.values()) if flow.loses else ():
                    if running.message_id == delivery.message_id and _name(running) == name and _take(running):
                        receipt = running.receipt = delivery.receipt
                        receipt.flow.held[receipt.tag] = running
                        log.info("queue %s: a job that runs here was delivered again; its run goes on", delivery.queue)
                        return True
        return False

    def end_of(self, delivery: Delivery) -> Sequence[RabbitMessage] | None:
        """The messages that the end of this job leaves, if the job has ended here before it came again."""
        if not delivery.message_id:
            return None
        with self._lock:
            messages = self._ends.get(_name(delivery))
        if messages is not None:
            log.info("queue %s: a job that has ended here was delivered again; it is not run again", delivery.queue)
        return messages

    def forget(self, delivery: Delivery) -> None:
        """Its end is settled, or can never be."""
        if delivery.message_id:
            with self._lock:
                self._ends.pop(_name(delivery), None)


def _name(delivery: Delivery) -> Name:
    return delivery.message_id, delivery.queue, hash(delivery.payload)


def _take(delivery: Delivery) -> bool:
    """Out of those that are held. The channel of a flow that was cancelled is closed without the delivery then."""
    flow, tag, _ = delivery.receipt
    held = flow.held.pop(tag, None) is not None
    if held and flow.is_cancelled and not flow.has_ended:
        flow.connection.call(partial(flow.unacknowledged.pop, tag, None))
    return held


def is_held(delivery: Delivery) -> bool:
    flow, tag, _ = delivery.receipt
    return not flow.has_ended and tag in flow.held


class DeliveryLimits:
    """Warns of queues that would drop a job which comes back often. The fetchers' threads share it."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._warned: set[str] = set()  # queues

    def look(self, delivery: Delivery, headers: Any, version: tuple[int, ...]) -> None:
        """`version` is that of the server; empty while it is not known."""
        count, queue = headers.get(COUNT), delivery.queue
        if not isinstance(count, int) or count < WARNED_FROM or queue in self._warned or version < (4,):
            return
        self._warned.add(queue)
        name = self._names.of(queue)
        policy = simplejson.dumps({"delivery-limit": HIGH})
        log.warning(
            "queue %s: a job came back %d times. If somebody else has declared the queue, RabbitMQ drops a job that "
            "comes back 20 times, or dead-letters it. A policy prevents that: rabbitmqctl set_policy -p VHOST "
            "pyworkers-%s '^%s$' '%s' --apply-to quorum_queues", queue, count, queue, re.escape(name), policy,
        )  # fmt: skip
