"""A queue of plain format in RabbitMQ: its bodies, and the queue of its retries."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from harness import Process, job
from rabbit import let_the_node_pause

pika = pytest.importorskip("pika")

from goworkers_py.brokers.rabbitmq.names import Names  # noqa: E402
from goworkers_py.brokers.rabbitmq.transport import EARLY_S  # noqa: E402
from goworkers_py.config.options import Config, QueueConfig  # noqa: E402
from goworkers_py.core.delivery import Delivery  # noqa: E402
from goworkers_py.core.errors import BrokerRefused  # noqa: E402
from goworkers_py.core.outcome import DONE, REQUEUE, Dead, Outcome, Requeue, Retry  # noqa: E402
from goworkers_py.features.plain_lists.payload import body_of  # noqa: E402
from goworkers_py.wire.properties import Properties  # noqa: E402

pytestmark = pytest.mark.server

BODIES = "orders@plain:shop.orders"
JOBS = "pyworkers.jobs.orders"


@pytest.fixture(autouse=True)
def _the_node_may_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    let_the_node_pause(monkeypatch)


@pytest.fixture
def me(rabbit_url: str) -> Iterator[Process]:
    queue = QueueConfig("orders", format="plain", bare_list="shop.orders")
    one = Process(Config(broker=rabbit_url, namespace="app", queues=(queue,)))
    with closing(one.broker):
        yield one


@pytest.fixture
def channel(rabbit_url: str) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(rabbit_url))
    channel = connection.channel()
    channel.queue_declare("shop.orders")
    yield channel
    connection.close()


def publish(channel: Any, body: bytes, **properties: Any) -> None:
    channel.basic_publish("", "shop.orders", body, pika.BasicProperties(**properties))


def left(channel: Any, name: str) -> int:
    return int(channel.queue_declare(name, passive=True).method.message_count)


def fetch(me: Process, channel: Any) -> Delivery:
    publish(channel, b"\xff{", headers={"pyworkers-due": 2**52}, message_id="m1")  # the name of a header of ours
    [delivery] = me.consume(1, BODIES)
    return delivery


def test_a_delivery_has_the_exact_bytes_and_the_properties(me: Process, channel: Any) -> None:
    delivery = fetch(me, channel)
    assert delivery.payload == b"\xff{"
    assert delivery.properties == Properties(
        headers={"pyworkers-due": 2**52}, message_id="m1", exchange="", routing_key="shop.orders"
    )
    assert me.settle((delivery, DONE)) == [True]


def test_a_body_that_is_given_back_stays_a_body_of_its_own_queue(me: Process, channel: Any) -> None:
    assert me.settle((fetch(me, channel), REQUEUE)) == [True]
    [again] = me.consume(1, BODIES)
    assert again.payload == b"\xff{"
    assert again.properties.redelivered


@pytest.mark.parametrize(
    "outcome",
    [Requeue(last=True), Requeue(job("1", queue="orders"), last=True), Requeue(job("1", queue="orders")),
     Retry(0.0, job("1", queue="orders")), Retry(0.0, job("1", queue=None))],
)  # fmt: skip
def test_our_own_jobs_never_go_into_the_queue_of_other_programs(me: Process, channel: Any, outcome: Outcome) -> None:
    assert me.settle((fetch(me, channel), outcome)) == [True]
    [again] = me.consume(1, "orders")
    assert again.properties is None
    if outcome == Requeue(last=True):
        fields = json.loads(again.payload)
        assert (fields["class"], fields["queue"]) == ("pyworkers.PlainMessage", "orders")
        assert body_of(fields) == b"\xff{"
        assert fields["plain"]["properties"]["message_id"] == "m1"
    assert me.settle((again, DONE)) == [True]
    assert left(channel, "shop.orders") == left(channel, f"app:{JOBS}") == 0


def test_a_retry_waits_for_its_time_and_comes_into_the_queue_of_our_jobs(me: Process, channel: Any) -> None:
    began = time.time()
    assert me.settle((fetch(me, channel), Retry(began + 0.4, job("1", queue="orders")))) == [True]
    [again] = me.consume(1, "orders")
    assert time.time() > began + 0.4 - EARLY_S - 0.01
    assert me.settle((again, Dead(job("dead")))) == [True]
    assert left(channel, "shop.orders") == 0


def test_names_of_a_plain_queue() -> None:
    names = Names("app", (1, 1.0), bare_lists={"orders": "orders"})
    assert names.of("orders@plain:orders") == "orders"
    assert names.of("orders") == "app:pyworkers.jobs.orders"
    assert names.of("mail") == "app:mail"
    assert (names.is_foreign("orders"), names.is_foreign("app:mail")) == (True, False)
    with pytest.raises(BrokerRefused, match="names of up to 255 bytes"):
        names.of("x@plain:" + 256 * "x")
