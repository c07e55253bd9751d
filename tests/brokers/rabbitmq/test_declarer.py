"""Queues are declared over a connection to a real node."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from queue import SimpleQueue
from typing import Any

import pika
import pytest
from harness import Process, job, payloads
from rabbit import RabbitNode
from raw_proxy import RawProxy
from waiting import eventually

from goworkers_py.brokers.rabbitmq import declarer
from goworkers_py.brokers.rabbitmq.connection import RabbitConnection
from goworkers_py.brokers.rabbitmq.declarer import Declarer
from goworkers_py.brokers.rabbitmq.names import Names, RabbitMessage
from goworkers_py.config.options import Config
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerUnavailable

pytestmark = pytest.mark.server


class AsksAgain(RabbitConnection):
    """Asks for a queue again as soon as it is there: the channel of the first question is being closed then."""

    def __init__(self, url: str) -> None:
        super().__init__(pika.URLParameters(url), "test")
        self.told: SimpleQueue[str | BrokerError] = SimpleQueue()

    def opened(self, connection: Any) -> None:
        message = RabbitMessage("q", b"")
        declarer = Declarer(connection, Names("", (10, 10.0)), (3, 10), self.told.put)

        def again() -> None:
            declarer.forget(message)
            declarer.declare(message, lambda: self.told.put("it is there"), self.told.put)

        declarer.declare(message, again, self.told.put)

    def ended(self, error: BrokerError) -> None:
        self.told.put(error)


def test_a_queue_is_found_while_the_channel_of_an_earlier_question_closes(rabbit_url: str) -> None:
    connection = AsksAgain(rabbit_url)
    connection.start()
    try:
        assert connection.told.get(timeout=20) == "it is there"
    finally:
        connection.close()


class ForgetfulProxy(RawProxy):
    """Loses the answers of the server to questions about queues, while `forgets` is set."""

    forgets = True

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        if target.getsockname()[1] == self.port:  # to the client
            with suppress(OSError, EOFError), source.makefile("rb") as frames:
                while True:
                    head = self._exactly(frames, 7)
                    [size] = struct.unpack(">L", head[3:])
                    frame = head + self._exactly(frames, size + 1)
                    if not (self.forgets and frame[0] == 1 and frame[7:11] == bytes([0, 50, 0, 11])):
                        target.sendall(frame)
        super()._pump(source, target)

    def _exactly(self, frames: Any, size: int) -> bytes:
        read: bytes = frames.read(size)
        if len(read) < size:
            raise EOFError
        return read


@pytest.fixture
def proxy(rabbit_server: RabbitNode) -> Iterator[ForgetfulProxy]:
    with ForgetfulProxy(rabbit_server.port) as one:
        yield one


def test_a_consumer_asks_again_over_another_connection_when_no_answer_comes(
    proxied: Process, proxy: ForgetfulProxy, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pusher = Process(Config(broker=rabbit_url))
    with closing(pusher.broker), monkeypatch.context() as patch:
        pusher.publish(job(1))
        patch.setattr(declarer, "ANSWER_S", 0.5)

        def consume() -> list[Delivery]:
            return proxied.broker.transport.consume("me", [("q", 1)], 1, 0.2)

        with pytest.raises(BrokerUnavailable, match="does not answer whether there is a queue q"):
            eventually(consume)
    proxy.forgets = False
    assert payloads(proxied.consume(1)) == [job(1)]


def test_a_push_works_over_another_connection_when_no_answer_came(
    proxied: Process, proxy: ForgetfulProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(declarer, "ANSWER_S", 0.5)
        with pytest.raises(BrokerUnavailable, match="does not answer whether there is a queue q"):
            proxied.publish(job(1))
    proxy.forgets = False
    proxied.publish(job(2))
    assert payloads(proxied.consume(1)) == [job(2)]


def test_a_server_that_takes_no_messages_may_answer_later(proxied: Process, proxy: ForgetfulProxy) -> None:
    proxy.forgets = False
    proxied.publish(job(1))
    connection = proxied.broker.transport._publisher._connection
    connection.blocked = "low on memory"  # as the server says when its alarm begins
    connection._unanswered(BrokerUnavailable("no answer"))
    assert connection.serves
    connection.blocked = ""
    connection.call(lambda: connection._unanswered(BrokerUnavailable("no answer")))
    assert eventually(lambda: not connection.serves)
