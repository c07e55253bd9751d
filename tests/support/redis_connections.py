"""Connections to a real server, also through a proxy, and by clients that do not wait long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Exchanges, Script
from goworkers_py.core.errors import BrokerUnavailable

SHORT_S = 0.5


@pytest.fixture
def connections(redis_url: str) -> Iterator[Connections]:
    with closing(Connections(redis_url)) as connections:
        yield connections


@pytest.fixture
def proxy(own_redis: RedisServer) -> Iterator[Proxy]:
    with Proxy(own_redis.port) as proxy:
        yield proxy


@pytest.fixture
def impatient(proxy: Proxy) -> Iterator[Connections]:
    """Connections through the proxy that do not wait long for a reply."""
    address = f"{proxy.url}?socket_timeout={SHORT_S}&socket_connect_timeout={SHORT_S}"
    with closing(Connections(address)) as connections:
        connections.reply_margin_s = SHORT_S
        assert eventually(lambda: answers(connections))
        yield connections


def answers(connections: Exchanges) -> bool:
    return echo(connections, "well") == b"well"


def echo(connections: Exchanges, word: str) -> Any:
    """None when no answer came in time, as it may happen to impatient ones on a busy machine."""
    try:
        return connections.call("ECHO", word)
    except BrokerUnavailable:
        return None


@pytest.fixture
def push_script(tmp_path: Path) -> Script:
    path = tmp_path / "push.lua"
    path.write_text("return redis.call('LPUSH', KEYS[1], ARGV[1])")
    return Script(path)
