"""The broker of threads, on the server that tests share, and a handler that waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apps import own_broker
from gates import gate  # noqa: F401

from goworkers_py.brokers.redis.broker import RedisBroker


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker
