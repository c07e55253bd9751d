"""Warns of queues that would drop a job which comes back often.

From RabbitMQ 4 on a quorum queue has a limit of 20 deliveries, unless it was declared with another one, as pyworkers
does. pyworkers does not declare a queue of others again: RabbitMQ would refuse other arguments. A policy helps.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import simplejson

from goworkers_py.brokers.rabbitmq.consumer import RabbitConsumer
from goworkers_py.brokers.rabbitmq.names import Names
from goworkers_py.core.delivery import Delivery

log = logging.getLogger(__name__)

COUNT = "x-delivery-count"
# Half of the way to the limit of RabbitMQ.
WARNED_FROM = 10
HIGH = 1_000_000


class DeliveryLimits:
    """The fetchers' threads share it."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._warned: set[str] = set()  # queues

    def look(self, consumer: RabbitConsumer, delivery: Delivery, headers: Any) -> None:
        count, queue = headers.get(COUNT), delivery.queue
        if not isinstance(count, int) or count < WARNED_FROM or queue in self._warned or consumer.version < (4,):
            return
        self._warned.add(queue)
        name = self._names.of(queue)
        policy = simplejson.dumps({"delivery-limit": HIGH})
        log.warning(
            "queue %s: a job came back %d times. If somebody else has declared the queue, RabbitMQ drops a job that "
            "comes back 20 times, or dead-letters it. A policy prevents that: rabbitmqctl set_policy -p VHOST "
            "pyworkers-%s '^%s$' '%s' --apply-to quorum_queues", queue, count, queue, re.escape(name), policy,
        )  # fmt: skip
