"""Every test here that uses `server` runs against the real Disque and against ours that keeps its rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from disque_server import DisqueServer, find_disque

from goworkers_py.brokers.disque.broker import DisqueBroker
from goworkers_py.brokers.disque.transport import DisqueTransport
from goworkers_py.config.options import Config

Open = Callable[..., DisqueTransport]
NewServer = Callable[[], DisqueServer]


@pytest.fixture(scope="session", params=["disque", "disque-protocol"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# Scope `session`: it starts before the fixtures that check what a test leaves behind.
@pytest.fixture(scope="session")
def shared_server(kind: str, disque_servers: dict[str, NewServer]) -> DisqueServer:
    return disque_servers[kind]()


@pytest.fixture
def server(shared_server: DisqueServer) -> DisqueServer:
    """One that tests share; it holds no job."""
    shared_server.forget_jobs()
    return shared_server


@pytest.fixture
def new_server(kind: str, disque_servers: object) -> Iterator[NewServer]:
    """Makes servers that the test may kill."""
    with ExitStack() as stack:
        program = find_disque() if kind == "disque" else None
        yield lambda: stack.enter_context(closing(DisqueServer(program)))


@pytest.fixture
def open_transport() -> Iterator[Open]:
    """Opens a transport at `address`, with more options of the configuration."""
    with ExitStack() as stack:

        def opened(address: str, **options: Any) -> DisqueTransport:
            broker = DisqueBroker.open(Config(broker=address, **options))
            stack.callback(broker.close)
            return broker.transport  # type: ignore[return-value]

        yield opened
