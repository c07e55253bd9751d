"""Tests of a feature may run against every broker, and against brokers on Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from contract_suite import *  # noqa: F403
from page_fixtures import client, patient_pages, scene  # noqa: F401
from program_fixtures import gems, go_binaries, has_sidekiq, ruby  # noqa: F401
from redis_brokers import broker, denied_server, make, own_broker, proxied  # noqa: F401
from servers import RedisServer


@pytest.fixture
def own(server_program: str) -> Iterator[RedisServer]:
    """A server for one test, which keeps nothing on disk."""
    with closing(RedisServer(appendonly="no")) as server:
        yield server
