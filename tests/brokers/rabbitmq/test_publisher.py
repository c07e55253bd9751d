"""Messages that are not confirmed, or never can be: they hold up no others."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest
from harness import Process, job, payloads
from rabbit import RabbitNode
from waiting import eventually

from goworkers_py.brokers.contracts.transport import Unwritable
from goworkers_py.brokers.rabbitmq import publisher
from goworkers_py.brokers.rabbitmq.publisher import PublishingConnection, PublishLane
from goworkers_py.brokers.rabbitmq.transport import RabbitTransport
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import Dead, Retry

pytestmark = pytest.mark.server
# See `rabbit.RabbitServer`.
LARGEST = 8_388_608


def connection_of(process: Process) -> PublishingConnection:
    transport = process.broker.transport
    assert isinstance(transport, RabbitTransport)
    connection = transport._publisher._connection
    assert connection is not None
    return connection


def test_a_queue_that_confirms_nothing_has_a_channel_for_itself(me: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one without a leader: RabbitMQ answers nothing to its message, and to those behind it on the channel."""
    confirm, stuck, kept = PublishingConnection._on_confirm, list[PublishLane](), list[Any]()

    def keep_back(connection: PublishingConnection, lane: PublishLane, frame: Any) -> None:
        if lane in stuck:
            kept.append(frame)
        else:
            confirm(connection, lane, frame)

    monkeypatch.setattr(publisher, "STALLED_S", 0.2)
    monkeypatch.setattr(PublishingConnection, "_on_confirm", keep_back)
    me.publish(job(1), queue="stuck")
    me.publish(job(1), queue="other")
    connection = connection_of(me)
    first = connection._lane
    stuck.append(first)
    pushing = threading.Thread(target=me.publish, args=[job(2)], kwargs={"queue": "stuck"})
    pushing.start()
    assert eventually(lambda: connection._stalled.get("stuck") is first and kept)
    me.publish(job(2), queue="other")
    assert payloads(me.consume(2, "other")) == [job(1), job(2)]
    assert pushing.is_alive()
    stuck.clear()
    for frame in kept:
        connection.call(partial(connection._on_confirm, first, frame))
    pushing.join(10)
    assert not pushing.is_alive()
    assert eventually(lambda: not connection._stalled)
    me.publish(job(3), queue="stuck")
    assert payloads(me.consume(3, "stuck")) == [job(1), job(2), job(3)]


def test_a_message_that_is_too_large_is_refused_alone(me: Process) -> None:
    too_large = job("x" * LARGEST)
    told = f"a message of {len(too_large)} bytes is larger than RabbitMQ takes: max_message_size is {LARGEST}"
    me.publish(job("first"))
    for _ in range(2):  # the second time the limit is known
        with pytest.raises(BrokerRefused, match=told):
            me.publish(too_large)
    me.publish(job("after"))
    one, other = me.consume(2)
    connection = connection_of(me)
    retry, dead = Retry(time.time() + 60, too_large), Dead(job("dead"))
    results = me.settle((one, retry), (other, dead))
    assert results == [told, True]
    assert isinstance(results[0], Unwritable)
    assert me.settle((one, Dead(one.payload))) == [True]
    assert payloads(me.consume(2, "pyworkers.dead")) == [job("dead"), one.payload]
    assert connection_of(me) is connection, "the connection has stayed"


def test_a_push_that_meets_an_alarm_fails_at_once(me: Process, rabbit_server: RabbitNode) -> None:
    me.publish(job(1))
    connection, errors = connection_of(me), list[BaseException]()
    # As RabbitMQ does after the first message that it does not take.
    taken = connection._lane.channel.basic_publish
    connection._lane.channel.basic_publish = lambda *told, **more: None
    blocked = type("Frame", (), {"method": type("Method", (), {"reason": "low on memory"})})

    def push() -> None:
        try:
            me.publish(job(2))
        except BrokerUnavailable as error:
            errors.append(error)

    pushing = threading.Thread(target=push)
    pushing.start()
    assert eventually(lambda: connection._open)
    connection.call(partial(connection._on_blocked, None, blocked))
    pushing.join(5)
    assert [str(one) for one in errors] == [
        "RabbitMQ takes no messages: low on memory; it may take those of this push later"
    ]
    connection._lane.channel.basic_publish = taken
