"""Jobs that run longer than the consumer timeout of RabbitMQ."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest
from harness import Process, job, payloads
from rabbit import RabbitServer, let_the_node_pause
from waiting import eventually

from goworkers_py.brokers.rabbitmq import consuming_connection
from goworkers_py.brokers.rabbitmq.consuming_connection import TIMEOUT_SINCE
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.outcome import DONE

pytestmark = [pytest.mark.server, pytest.mark.timeout(240)]
TIMEOUT_MS = 2_000


@pytest.fixture(autouse=True)
def _the_node_may_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    let_the_node_pause(monkeypatch)


@pytest.fixture(scope="module")
def hasty() -> Iterator[RabbitServer]:
    with closing(RabbitServer(f"consumer_timeout = {TIMEOUT_MS}")) as server:
        yield server


@pytest.fixture
def me(hasty: RabbitServer, request: pytest.FixtureRequest) -> Iterator[Process]:
    hasty.await_metadata()
    with closing((one := Process(Config(broker=hasty.new_vhost(request.node.name)))).broker):
        yield one


def consumed(process: Process, queue: str = "q") -> list[bytes]:
    try:
        return payloads(process.broker.transport.consume("me", [(queue, 10), ("other", 1)], 10, 0.3))
    except BrokerError:
        return []


def version(process: Process) -> tuple[int, ...]:
    [known] = {id(one): one for one in process.broker.transport._consumers.values()}.values()
    return known.version


def test_a_long_run_goes_on_is_acknowledged_and_costs_no_other_queue_its_jobs(
    me: Process, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that can be asked for more is asked for less here."""
    monkeypatch.setattr(consuming_connection, "LONGEST_RUN_MS", TIMEOUT_MS)
    for queue in ("q", "other"):
        me.publish(job(queue), queue=queue)
    taken = []
    while len(taken) < 2:
        taken += me.broker.transport.consume("me", [("q", 10), ("other", 1)], 10, 1.0)
    long, other = sorted(taken, key=lambda one: one.queue, reverse=True)
    flow, others = long.receipt.flow, other.receipt.flow
    assert me.settle((other, DONE)) == [True]
    assert eventually(lambda: (consumed(me), long.receipt.flow is not flow) == ([], True))
    assert not others.connection.error
    assert not others.is_lost
    assert me.settle((long, DONE)) == [True]
    assert eventually(lambda: not long.receipt.flow.held)
    me.publish(job("after"))
    assert eventually(lambda: consumed(me)) == [job("after")]


def test_a_run_that_ends_after_the_timeout_is_not_run_again(me: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consuming_connection, "LONGEST_RUN_MS", TIMEOUT_MS)
    me.publish(job(1))
    [long] = me.consume(1)
    flow = long.receipt.flow
    assert eventually(lambda: flow.loses)
    me.settle((long, DONE))  # RabbitMQ 4.3 keeps the channel: then nobody can tell whether this is in vain
    assert consumed(me) == []
    me.publish(job("after"))
    assert eventually(lambda: consumed(me)) == [job("after")]


def test_a_server_is_asked_for_longer_runs_or_its_limit_is_told(me: Process, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "goworkers_py")
    me.publish(job(1))
    [one] = me.consume(1)
    flow = one.receipt.flow
    assert consumed(me) == []
    asked = version(me) >= TIMEOUT_SINCE
    assert ("is asked to let a job run for 30 days" in caplog.text) is asked
    assert ("30 minutes unless rabbitmq.conf says otherwise" in caplog.text) is not asked
    if asked:
        assert not eventually(lambda: flow.loses, within_s=2 * TIMEOUT_MS / 1000)
    assert me.settle((one, DONE)) == [True]
