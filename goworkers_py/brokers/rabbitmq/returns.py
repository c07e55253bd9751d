"""Jobs whose messages come again while this process runs them, or after it has ended them.

RabbitMQ delivers a job again when it has lost the first delivery: its connection or channel ended, or the job ran past
the consumer timeout. When the message comes to this process again, a job that still runs goes on, and is acknowledged
by the new delivery. A job that has ended is acknowledged without another run. Both are known by the id of the message,
so this holds for messages that have one: all that pyworkers publishes. What another process gets is run there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import Outcome, Requeue

if TYPE_CHECKING:
    from goworkers_py.brokers.rabbitmq.consuming_link import Flow

log = logging.getLogger(__name__)

MOST_ENDS = 1_000


class Returns:
    """The fetchers' threads and the settlers' share it. Only a delivery that was lost, or comes again, takes the
    lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[str, tuple[Delivery, Outcome]] = {}  # by the id of the message, the oldest first

    def loses(self, delivery: Delivery, outcome: Outcome) -> bool:
        """Whether a delivery that seemed lost cannot be settled. Then its end is remembered."""
        with self._lock:
            if is_held(delivery):  # it has come again meanwhile
                return False
            flow, tag, _ = delivery.receipt
            if flow.held.pop(tag, None) is not None:
                self._remember(delivery, outcome)
            return True

    def release(self, delivery: Delivery, outcome: Outcome) -> bool:
        """Takes a delivery whose outcome is written out of progress. False if it cannot be acknowledged."""
        flow, tag, _ = delivery.receipt
        held = flow.held.pop(tag, None) is not None
        if held and not flow.loses:
            return True
        with self._lock:
            flow, tag, _ = delivery.receipt
            held = flow.held.pop(tag, None) is not None or held
            if held and flow.loses:
                self._remember(delivery, outcome)
            return held and not flow.has_ended

    def _remember(self, delivery: Delivery, outcome: Outcome) -> None:
        if not delivery.message_id or goes_to_the_front(outcome):
            return
        self._ends[delivery.message_id] = delivery, outcome
        while len(self._ends) > MOST_ENDS:
            del self._ends[next(iter(self._ends))]

    def goes_on(self, delivery: Delivery, flows: Iterable[Flow]) -> bool:
        """Whether a job that comes again runs here still: then this delivery is that of the run."""
        if not delivery.message_id:
            return False
        with self._lock:
            for flow in flows:
                for tag, running in list(flow.held.items()) if flow.loses else ():
                    if _are_same(running, delivery) and flow.held.pop(tag, None) is not None:
                        receipt = delivery.receipt
                        receipt.flow.held[receipt.tag] = running
                        running.receipt = receipt
                        log.info("queue %s: a job that runs here was delivered again; its run goes on", delivery.queue)
                        return True
        return False

    def end_of(self, delivery: Delivery) -> Outcome | None:
        """The outcome of a job that has ended here before it came again."""
        if delivery.message_id not in self._ends:
            return None
        with self._lock:
            ended, outcome = self._ends.get(delivery.message_id, (None, None))
            if ended is None or not _are_same(ended, delivery):
                return None
            del self._ends[delivery.message_id]
        log.info("queue %s: a job that has ended here was delivered again; it is not run again", delivery.queue)
        return outcome


def _are_same(one: Delivery, other: Delivery) -> bool:
    return one.message_id == other.message_id and one.queue == other.queue and one.payload == other.payload


def is_held(delivery: Delivery) -> bool:
    flow, tag, _ = delivery.receipt
    return not flow.has_ended and tag in flow.held


def goes_to_the_front(outcome: Outcome) -> bool:
    return isinstance(outcome, Requeue) and outcome.payload is None and not outcome.last
