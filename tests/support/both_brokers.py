"""Fixtures of tests that run with the memory broker and with Redis. conftest.py imports them for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from goworkers_py.brokers.memory.broker import forget

MEMORY = "memory://both"


# Scope `session`: the server starts before the fixtures that check what a test leaves behind.
@pytest.fixture(scope="session", params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def broker_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    if kind == "redis":
        request.getfixturevalue("redis_server")
    return kind


@pytest.fixture
def broker_address(request: pytest.FixtureRequest, broker_kind: str) -> Iterator[str]:
    """Of a broker without jobs."""
    yield MEMORY if broker_kind == "memory" else request.getfixturevalue("redis_url")
    forget(MEMORY)
