"""A process whose lease has ended goes on under a new identity, while RabbitMQ is away: the jobs that it has fetched
before, and not begun, go back to RabbitMQ as soon as it serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from harness import Process, job, payloads
from waiting import eventually

from goworkers_py.config.options import Config
from goworkers_py.core.delivery import BEGUN
from goworkers_py.core.errors import BrokerUnavailable

pytestmark = [pytest.mark.server, pytest.mark.timeout(60)]

ASKS = [("q", 9)]


@pytest.fixture
def me(rabbit_url: str, redis_url: str) -> Iterator[Process]:
    one = Process(Config(broker=rabbit_url, store=redis_url)).begin()
    with closing(one.broker):
        yield one


def test_jobs_of_the_former_identity_go_back_when_the_service_takes_them(
    me: Process, rabbit_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    me.publish(job("begun"), job("waits"))
    begun, waits = sorted(me.consume(2), key=lambda delivery: delivery.payload)
    begun.stage = BEGUN
    service, refusals = me.broker.transport._service, [BrokerUnavailable("cut"), BrokerUnavailable("cut")]
    settle = service.settle

    def cut_off(batch: object) -> object:
        if refusals:
            raise refusals.pop()
        return settle(batch)

    monkeypatch.setattr(service, "settle", cut_off)
    me.identity = Process(Config(broker=rabbit_url, store=redis_url)).identity
    me.beat()
    again = []

    def consumed() -> bool:
        again.extend(me.broker.transport.consume(me.identity, ASKS, 9, 0.1))
        return bool(again)

    assert eventually(consumed, 30)
    assert refusals == []
    assert payloads(again) == [waits.payload]
    assert {delivery.identity for delivery in again} == {me.identity}
    assert begun not in again
