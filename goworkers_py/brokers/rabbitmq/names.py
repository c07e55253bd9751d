"""The names and the arguments of the queues in RabbitMQ. No other module spells one.

A job waits in a quorum queue of its queue's name. A job that waits for a time goes through two more queues:

    pyworkers.delays.60s   one queue for each of STEPS_MS, for the jobs of all queues: they leave it after that time
    pyworkers.due.mail     one queue for each queue: the jobs leave it at once, for the queue `mail`

RabbitMQ keeps a job where it is until the next queue has it. Of the jobs that a queue cannot hand on it looks at a few
only, and the others wait behind them. So when `mail` was deleted, or is full, its jobs wait in `pyworkers.due.mail`,
behind which no job of another queue waits. When that queue was deleted too, they go to the dead jobs.

A queue may take bare bodies from a queue of other programs. Their other consumers must not get our jobs, so
the retries of `orders` wait in a queue of their own, `pyworkers.jobs.orders`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.levels import bare_list_of
from goworkers_py.core.values import NamedTuple

# AMQP writes the length of a name into one byte.
LONGEST_NAME = 255
# The longest time that RabbitMQ lets a message live is some 49 days. A job that waits for longer takes several steps.
_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 432000, 864000,
            2592000)  # fmt: skip
STEPS_MS = (100, 200, 500, *(1000 * seconds for seconds in _SECONDS))
MOST_TTL_MS = 2**32 - 1
MOST_DUE_MS = 2**62  # AMQP writes it with 64 bits

# Headers of our messages.
DUE = "pyworkers-due"  # epoch milliseconds, because pika writes no float: a job that comes earlier waits again
DELAY = "pyworkers-delay"  # by it the exchange of delays chooses the queue


class RabbitMessage(NamedTuple):
    """A message that is published: to a queue of RabbitMQ by its name, after `delay_ms`, one of STEPS_MS; 0: at
    once."""

    queue: str
    body: bytes
    headers: Mapping[str, Any] | None = None
    delay_ms: int = 0


class Names:
    def __init__(
        self,
        namespace: str,
        dead_limits: tuple[int, float],
        clues_life_s: float = 72 * 3600.0,
        one_consumer: bool = False,
        bare_lists: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`one_consumer`: whether RabbitMQ is to give the jobs of a queue to one process at a time. `bare_lists`: by
        the queues of ours, the names of the queues with their bare bodies."""
        self._prefix = f"{namespace}:" if namespace else ""
        self.dead = f"{self._prefix}pyworkers.dead"
        # Exchanges. `delays` leads to the queues of the delays, `due` from there to the queues of due jobs, and
        # `undeliverable` to the dead jobs, where a queue of due jobs is missing.
        self.delays, self.due, self.undeliverable = (
            f"{self._prefix}pyworkers.{name}" for name in ("delays", "due", "undeliverable")
        )
        self._dead_limits, self._clues_life_s = dead_limits, clues_life_s
        # Queues of clues, see `contracts.death_clues`.
        self._runs, self._alone = f"{self._prefix}pyworkers.runs.", f"{self._prefix}pyworkers.alone."
        self.one_consumer, self.bare_lists = one_consumer, bare_lists

    def of(self, queue: str) -> str:
        foreign = bare_list_of(queue)  # other programs chose the name: they know of no namespace
        ours = f"{self._prefix}pyworkers.jobs.{queue}" if queue in self.bare_lists else self._prefix + queue
        name = _checked(foreign or ours)
        if name.startswith("amq.") and not foreign:
            raise BrokerRefused(f"RabbitMQ keeps names that begin with amq. for itself: rename the queue {queue}")
        return name

    def is_foreign(self, name: str) -> bool:
        """Whether other programs publish to the queue of this name in RabbitMQ."""
        return name in self.bare_lists.values()

    def delay(self, delay_ms: int) -> str:
        return f"{self.delays}.{delay_ms / 1000:g}s"

    def due_of(self, name: str) -> str:
        """The queue of the due jobs for the queue of this name in RabbitMQ."""
        due = f"{self.due}.{name.removeprefix(self._prefix)}"
        if len(due.encode()) <= LONGEST_NAME:
            return due
        return f"{self.due}.{hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()}"

    def runs_of(self, clue_name: str) -> str:
        return _checked(self._runs + clue_name)  # a job of another program may give any name

    def alone_of(self, clue_name: str) -> str:
        return _checked(self._alone + clue_name)

    def holds_jobs(self, name: str) -> bool:
        """Whether the queue of this name in RabbitMQ is one that workers consume from."""
        return name != self.dead and not name.startswith((self._runs, self._alone))

    def later(self, queue: str, body: bytes, at: float, now: float) -> RabbitMessage:
        """The message of a job that waits until `at`. Its last step may end up to a tenth of a second late."""
        rest_ms = (at - now) * 1000
        if rest_ms <= 0:
            return RabbitMessage(queue, body)
        due_ms = int(min(at * 1000, MOST_DUE_MS))
        step = max([STEPS_MS[0], *(step for step in STEPS_MS if step <= rest_ms)])
        return RabbitMessage(queue, body, {DUE: due_ms, DELAY: step}, step)

    def arguments(self, name: str, version: tuple[int, ...]) -> dict[str, Any]:
        """The arguments with which a queue is declared that is not there. `version` is that of the server."""
        if name.startswith((self._runs, self._alone)):
            life_ms = max(1, min(int(self._clues_life_s * 1000), MOST_TTL_MS))
            return {"x-queue-type": "classic", "x-expires": life_ms, "x-message-ttl": life_ms}
        arguments: dict[str, Any] = {"x-queue-type": "quorum"}
        if version >= (4,):
            arguments["x-delivery-limit"] = -1  # by default it would drop a job that came for the twentieth time
        if self.one_consumer and name != self.dead:
            arguments["x-single-active-consumer"] = True
        if name == self.dead:
            most, life_s = self._dead_limits
            arguments["x-max-length"] = most
            if life_s * 1000 <= MOST_TTL_MS:
                arguments["x-message-ttl"] = int(life_s * 1000)
        return arguments

    def delay_arguments(self, delay_ms: int) -> dict[str, Any]:
        return _leaving(delay_ms, self.due)

    def due_arguments(self) -> dict[str, Any]:
        return _leaving(0, "")


def _checked(name: str) -> str:
    """The name, if a queue can have it. In the thread of a connection, an error of such a name would end it."""
    if "\n" in name or "\r" in name:  # RabbitMQ declares the queue without them, and finds none of the name with them
        raise BrokerRefused(f"RabbitMQ takes no line breaks in names: rename the queue {name[:40]!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise BrokerRefused(f"queue {name[:40]!r}: the name holds half of a surrogate pair, no text") from None
    if size > LONGEST_NAME:
        raise BrokerRefused(f"RabbitMQ takes names of up to {LONGEST_NAME} bytes; queue {name[:40]!r}... has more")
    return name


def _leaving(after_ms: int, exchange: str) -> dict[str, Any]:
    """Of a queue that jobs leave after a time, by the exchange and their routing key."""
    # At least once: RabbitMQ removes a job here when the next queue has confirmed it. That needs `overflow`.
    return {
        "x-queue-type": "quorum",
        "x-message-ttl": after_ms,
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
