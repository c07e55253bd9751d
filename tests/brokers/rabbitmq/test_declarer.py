"""Queues are declared over a connection to a real node."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pika
import pytest

from goworkers_py.brokers.rabbitmq.declarer import Declarer
from goworkers_py.brokers.rabbitmq.link import Link
from goworkers_py.brokers.rabbitmq.names import Message, Names
from goworkers_py.core.errors import BrokerError

pytestmark = pytest.mark.server


class AsksAgain(Link):
    """Asks for a queue again as soon as it is there: the channel of the first question is being closed then."""

    def __init__(self, url: str) -> None:
        super().__init__(pika.URLParameters(url), "test")
        self.told: SimpleQueue[str | BrokerError] = SimpleQueue()

    def opened(self, connection: Any) -> None:
        message = Message("q", b"")
        declarer = Declarer(connection, Names("", (10, 10.0)), (3, 10))

        def again() -> None:
            declarer.forget(message)
            declarer.declare(message, lambda: self.told.put("it is there"), self.told.put)

        declarer.declare(message, again, self.told.put)

    def ended(self, error: BrokerError) -> None:
        self.told.put(error)


def test_a_queue_is_found_while_the_channel_of_an_earlier_question_closes(rabbit_url: str) -> None:
    link = AsksAgain(rabbit_url)
    link.start()
    try:
        assert link.told.get(timeout=20) == "it is there"
    finally:
        link.close()
