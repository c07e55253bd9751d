"""RabbitMQ is away, or hangs, and the Redis beside it serves: its jobs run, its pauses hold, and the outage is told
once."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis as redis_py
from apps import job, own_app, started
from rabbit import RabbitNode
from raw_proxy import RawProxy
from waiting import eventually

from goworkers_py.api.app import App
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.brokers.two_servers import service_probe
from goworkers_py.brokers.two_servers.service_probe import ServiceProbe
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import BrokerUnavailable

BEGINS, ENDS = "RabbitMQ with Redis cannot serve: RabbitMQ: ", "RabbitMQ with Redis serves again"

PAUSED, SENT, SENT_LATER = -1, -2, -3  # the numbers of jobs

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]


@contextmanager
def two_servers(amqp_port: int, redis_url: str, vhost: str = "") -> Iterator[tuple[App, list[int]]]:
    """An app with both, and the numbers of the jobs that it has run."""
    queues = QueueConfig("q", 2), QueueConfig("other", 1)
    with own_app(f"amqp://127.0.0.1:{amqp_port}/{vhost}", *queues, store=redis_url) as app:
        ran: list[int] = []
        app.job("J", retry=False)(ran.append)
        yield app, ran


def push(redis: redis_py.Redis, number: int, queue: str = "q") -> None:
    redis.lpush(f"queue:{queue}", job("J", number))


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "serve" in record.getMessage()]


def await_switch(caplog: pytest.LogCaptureFixture, word: str) -> None:
    assert eventually(lambda: f"queue q: {word}" in [record.getMessage() for record in caplog.records])


def look_at_all(redis: redis_py.Redis, ran: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """Jobs run one after the other, and a pause holds that is taken and ended while RabbitMQ is away."""
    for _ in range(50):
        run_one(redis, ran)
    redis.sadd("paused", "q")
    await_switch(caplog, "paused")
    push(redis, PAUSED)
    run_one(redis, ran, "other")
    assert PAUSED not in ran
    redis.srem("paused", "q")
    assert eventually(lambda: PAUSED in ran)


def run_one(redis: redis_py.Redis, ran: list[int], queue: str = "q") -> None:
    before = len(ran)
    push(redis, before, queue)
    assert eventually(lambda: len(ran) > before)


def test_jobs_run_and_pauses_hold_where_nothing_listens(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        with two_servers(closed.getsockname()[1], redis_url) as (app, ran), started(app):
            look_at_all(redis, ran, caplog)
            assert eventually(lambda: told(caplog) != [])
    assert told(caplog) == [f"{BEGINS}connection refused; trying again until it does"]


def test_jobs_run_and_pauses_hold_where_the_server_hangs(
    redis_url: str, redis: redis_py.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    hanging = socket.create_server(("127.0.0.1", 0))  # its kernel takes connections, and nobody answers
    with hanging, two_servers(hanging.getsockname()[1], redis_url) as (app, ran), started(app):
        look_at_all(redis, ran, caplog)
        hanging.close()  # ends the connections: pika leaves sockets open that have no answer at the end
    assert not any(ENDS in line for line in told(caplog))


@pytest.mark.timeout(180)
def test_an_outage_is_told_once_and_the_service_serves_again(
    rabbit_server: RabbitNode,
    rabbit_url: str,
    redis_url: str,
    redis: redis_py.Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    vhost = rabbit_url.rsplit("/", 1)[1]
    with RawProxy(rabbit_server.port) as proxy, two_servers(proxy.port, redis_url, vhost) as (app, ran), started(app):
        app.enqueue("q", "J", [SENT])
        assert eventually(lambda: SENT in ran)
        caplog.clear()
        proxy.refuse()
        assert eventually(lambda: told(caplog) != [])
        look_at_all(redis, ran, caplog)
        proxy.pass_through()
        # On a busy machine the probe may reach RabbitMQ once more before it is cut off: then the outage is told longer.
        assert eventually(lambda: len(told(caplog)) > 1, 90)
        app.enqueue("q", "J", [SENT_LATER])
        assert eventually(lambda: SENT_LATER in ran)
    [began, ended] = told(caplog)
    assert (began.startswith(BEGINS), ended.startswith(ENDS)) == (True, True)


def test_a_failure_is_told_once_also_when_the_service_is_back_before_anybody_looks() -> None:
    returns: list[bool] = []
    probe = ServiceProbe("Service", MemoryBroker(State(), DeadLimits()).transport, lambda: returns.append(True))
    probe.failed(BrokerUnavailable("cut"))
    assert eventually(lambda: returns == [True])
    with pytest.raises(BrokerUnavailable, match=r"^Service: cut$"):
        probe.check()
    probe.check()
    probe.close()


def test_a_service_that_fails_its_users_and_not_the_probe_is_told_as_one_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_probe, "SAME_OUTAGE_S", math.inf)
    returns: list[bool] = []
    probe = ServiceProbe("Service", MemoryBroker(State(), DeadLimits()).transport, lambda: returns.append(True))
    for count in range(1, 4):
        probe.failed(BrokerUnavailable("cut"))
        assert eventually(lambda count=count: len(returns) == count)
        with pytest.raises(BrokerUnavailable):
            probe.check()
    with pytest.raises(BrokerUnavailable):
        probe.check()
    probe.close()
