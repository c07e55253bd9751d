"""The names and the arguments of the queues in RabbitMQ. No other module spells one.

A job waits in a quorum queue of its queue's name. A job that waits for a time is in one of few queues with a time to
live, one for each of STEPS_MS: from there RabbitMQ moves it to the queue of its routing key when that time has passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from goworkers_py.core.errors import BrokerRefused

# AMQP writes the length of a name into one byte.
LONGEST_NAME = 255
# The longest time that RabbitMQ lets a message live is some 49 days. A job that waits for longer takes several steps.
_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 432000, 864000,
            2592000)  # fmt: skip
STEPS_MS = (100, 200, 500, *(1000 * seconds for seconds in _SECONDS))
MOST_TTL_MS = 2**32 - 1

# Headers of our messages.
DUE = "pyworkers-due"  # epoch milliseconds, because pika writes no float: a job that comes earlier waits again
DELAY = "pyworkers-delay"  # by it the exchange of delays chooses the queue


class Message(NamedTuple):
    """What is published: to a queue of RabbitMQ by its name, after `delay_ms`, one of STEPS_MS; 0: at once."""

    queue: str
    body: bytes
    headers: Mapping[str, Any] | None = None
    delay_ms: int = 0


class Names:
    def __init__(self, namespace: str, dead_limits: tuple[int, float]) -> None:
        self._prefix = f"{namespace}:" if namespace else ""
        self.dead = f"{self._prefix}pyworkers.dead"
        self.delays = f"{self._prefix}pyworkers.delays"  # an exchange
        self._dead_limits = dead_limits

    def of(self, queue: str) -> str:
        name = self._prefix + queue
        if len(name.encode()) > LONGEST_NAME:
            raise BrokerRefused(f"RabbitMQ takes names of up to {LONGEST_NAME} bytes; queue {queue[:40]}... has more")
        if name.startswith("amq."):
            raise BrokerRefused(f"RabbitMQ keeps names that begin with amq. for itself: rename the queue {queue}")
        return name

    def delay(self, delay_ms: int) -> str:
        return f"{self.delays}.{delay_ms / 1000:g}s"

    def later(self, queue: str, body: bytes, at: float, now: float) -> Message:
        """The message of a job that waits until `at`. Its last step may end up to a tenth of a second late."""
        rest_ms = (at - now) * 1000
        if rest_ms <= 0:
            return Message(queue, body)
        step = max([STEPS_MS[0], *(step for step in STEPS_MS if step <= rest_ms)])
        return Message(queue, body, {DUE: int(at * 1000), DELAY: step}, step)

    def arguments(self, name: str, version: tuple[int, ...]) -> dict[str, Any]:
        """Those with which a queue is declared that is not there. `version` is that of the server."""
        told: dict[str, Any] = {"x-queue-type": "quorum"}
        if version >= (4,):
            told["x-delivery-limit"] = -1  # by default it would drop a job that came for the twentieth time
        if name == self.dead:
            most, life_s = self._dead_limits
            told["x-max-length"] = most
            if life_s * 1000 <= MOST_TTL_MS:
                told["x-message-ttl"] = int(life_s * 1000)
        return told

    def delay_arguments(self, delay_ms: int) -> dict[str, Any]:
        # At least once: RabbitMQ removes a job here when the job's queue has confirmed it. That needs `overflow`.
        return {
            "x-queue-type": "quorum",
            "x-message-ttl": delay_ms,
            "x-dead-letter-exchange": "",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }
