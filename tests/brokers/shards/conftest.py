from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from harness_shards import ShardServers


@pytest.fixture
def servers(server_program: str) -> Iterator[ShardServers]:
    """Three servers of this test's own, which it may kill."""
    with closing(ShardServers()) as servers:
        yield servers
