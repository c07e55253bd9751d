"""Brokers on the server that tests share, and on servers of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from proxy import Proxy
from servers import RedisServer
from verbs import Make, leased_broker

from goworkers_py.brokers.redis.broker import RedisBroker


@pytest.fixture
def make(redis_url: str) -> Iterator[Make]:
    """Makes brokers on the shared server."""
    with ExitStack() as stack:

        def make(machine: str = "", block_s: float = 0.1, **options: Any) -> RedisBroker:
            return stack.enter_context(closing(leased_broker(redis_url, machine, block_s, **options)))

        yield make


@pytest.fixture
def broker(make: Make) -> RedisBroker:
    return make()


@pytest.fixture
def own_broker(own_redis: RedisServer) -> Iterator[RedisBroker]:
    with closing(leased_broker(own_redis.url)) as broker:
        yield broker


@pytest.fixture
def proxied(own_redis: RedisServer) -> Iterator[tuple[Proxy, RedisBroker]]:
    with Proxy(own_redis.port) as proxy, closing(leased_broker(proxy.url)) as broker:
        yield proxy, broker


@pytest.fixture(scope="module")
def denied_server(server_program: str) -> Iterator[RedisServer]:
    """For tests that deny commands, or fill the memory."""
    with closing(RedisServer(appendonly="no")) as server:
        yield server
