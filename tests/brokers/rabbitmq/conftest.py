"""Processes on the RabbitMQ of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from harness import Process
from rabbit import RabbitNode, let_the_node_pause
from raw_proxy import RawProxy

from goworkers_py.config.options import Config


@pytest.fixture(autouse=True)
def _the_node_may_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    let_the_node_pause(monkeypatch)


@pytest.fixture
def me(rabbit_url: str) -> Iterator[Process]:
    one = Process(Config(broker=rabbit_url))
    with closing(one.broker):
        yield one


@pytest.fixture
def proxy(rabbit_server: RabbitNode) -> Iterator[RawProxy]:
    with RawProxy(rabbit_server.port) as one:
        yield one


@pytest.fixture
def proxied(rabbit_url: str, rabbit_server: RabbitNode, proxy: RawProxy) -> Iterator[Process]:
    one = Process(Config(broker=rabbit_url.replace(str(rabbit_server.port), str(proxy.port))))
    with closing(one.broker):
        yield one
