"""The broker of threads on the server that tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apps import own_broker

from goworkers_py.brokers.redis.broker import RedisBroker


@pytest.fixture
def broker(redis_url: str) -> Iterator[RedisBroker]:
    with own_broker(redis_url) as broker:
        yield broker
