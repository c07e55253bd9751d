"""Clues of deaths, see `contracts.death_clues`: messages in two queues for each job that has some.

The queues are classic ones: a quorum queue costs RabbitMQ more, and each of its names for ever. RabbitMQ deletes them
when nobody has used them for the poison window.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any

from goworkers_py.brokers.contracts.death_clues import DeathClues
from goworkers_py.brokers.rabbitmq.connection import count, delete
from goworkers_py.brokers.rabbitmq.names import Names, RabbitMessage
from goworkers_py.brokers.rabbitmq.publisher import RabbitPublisher
from goworkers_py.brokers.rabbitmq.returns import is_held
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.levels import bare_list_of

# Headers that a quorum queue sets: how often the job has come back to it, for whatever reason. From RabbitMQ 4.3 on the
# first one counts some reasons only, and the second one is there.
RETURNS = ("x-delivery-count", "x-acquired-count")
# Of a job that came back so often, the runs leave clues. A job that only waits in a process comes back once when that
# process stops or dies, and a clue costs some milliseconds. A job that kills its process costs so many processes more.
CLUES_FROM = 2


class RabbitDeathClues(DeathClues):
    def __init__(self, publisher: RabbitPublisher, names: Names) -> None:
        self._publisher, self._names = publisher, names
        # The names whose clues this process has left and not taken back. Each use is one step.
        self._left: set[str] = set()

    def runs(self, name: str) -> int:
        return self._publisher.ask(count(self._names.runs_of(name)))

    def ran_alone(self, name: str) -> bool:
        return self._publisher.ask(count(self._names.alone_of(name))) > 0

    def leave(self, name: str) -> None:
        self._left.add(name)
        self._publisher.publish([RabbitMessage(self._names.runs_of(name), b"")])

    def leave_alone(self, name: str) -> None:
        self._left.add(name)
        self._publisher.publish([RabbitMessage(self._names.alone_of(name), b"")])

    def take_back_alone(self, name: str) -> None:
        self._publisher.ask(delete(self._names.alone_of(name)))

    def clear(self, name: str) -> None:
        for queue in (self._names.alone_of(name), self._names.runs_of(name)):  # the first one convicts
            self._publisher.ask(delete(queue))
        self._left.discard(name)

    def is_ours(self, delivery: Delivery) -> bool:
        return not hasattr(delivery.receipt, "flow") or is_held(delivery)  # of the store, there are leases

    def take_all_back(self) -> None:
        """Before this process ends by itself: runs that it breaks off crash nothing."""
        with suppress(BrokerError):
            for name in list(self._left) if self._publisher.serves else ():
                self.clear(name)


def name_clues(delivery: Delivery, headers: Any) -> None:
    """Names the clues of a job that came back often. Not its jid: two jobs may have the same one, or none. A plain body
    has no field for the name, which it needs while it waits for a time."""
    counts = [count for name in RETURNS if isinstance(count := headers.get(name), int)]
    if max(counts, default=0) >= CLUES_FROM and not bare_list_of(delivery.queue):
        text = f"{delivery.queue}\n{delivery.message_id or None}\n".encode() + delivery.payload
        delivery.clue_name = hashlib.sha1(text, usedforsecurity=False).hexdigest()
