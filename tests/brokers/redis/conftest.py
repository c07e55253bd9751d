"""Brokers on the server that tests share, and on servers of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from proxy import Proxy
from servers import RedisServer
from verbs import Make, leased_broker

from goworkers_py.brokers.redis import transport
from goworkers_py.brokers.redis.broker import RedisBroker

WAIT_S = 0.1


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that a `consume` waits for the first job."""
    monkeypatch.setattr(transport, "BLOCK_S", WAIT_S)


@pytest.fixture
def make(redis_url: str, short_wait: None) -> Iterator[Make]:
    """Makes brokers on the shared server."""
    with ExitStack() as stack:

        def make(machine: str = "", **options: Any) -> RedisBroker:
            return stack.enter_context(closing(leased_broker(redis_url, machine, **options)))

        yield make


@pytest.fixture
def broker(make: Make) -> RedisBroker:
    return make()


@pytest.fixture
def own_broker(own_redis: RedisServer, short_wait: None) -> Iterator[RedisBroker]:
    with closing(leased_broker(own_redis.url)) as broker:
        yield broker


@pytest.fixture
def proxied(own_redis: RedisServer, short_wait: None) -> Iterator[tuple[Proxy, RedisBroker]]:
    with Proxy(own_redis.port) as proxy, closing(leased_broker(proxy.url)) as broker:
        yield proxy, broker
