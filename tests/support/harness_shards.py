"""The harness of the contract tests for a broker on three shards, each a real server."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import redis as redis_py
from servers import RedisServer, flush

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.shards.placement import Placement


class ShardServers:
    """Three servers, for all tests of a session."""

    def __init__(self, count: int = 3, **options: str) -> None:
        self.servers = [RedisServer(**options) for _ in range(count)]

    @property
    def address(self) -> str:
        """The names of the shards are fixed, so that a key has the same home in every run."""
        return "shards:" + ",".join(
            f"{name}={server.url}" for name, server in zip("abcdef", self.servers, strict=False)
        )

    def close(self) -> None:
        for server in self.servers:
            server.close()


class ShardsHarness:
    def __init__(self, shards: ShardServers) -> None:
        self.address = shards.address
        self._servers: Sequence[RedisServer] = shards.servers
        self._empty()

    def expire_lease(self, identity: str) -> None:
        """On every shard: a test that never consumed has a lease on each all the same."""
        for server in self._servers:
            with redis_py.Redis.from_url(server.url) as client:
                assert client.delete(Keys().lease(identity)) == 1

    def close(self) -> None:
        self._empty()

    def _empty(self) -> None:
        for server in self._servers:
            flush(server.url)


# Each test of these modules spreads its jobs over the shards. The others look at the order of jobs, which is kept on
# one shard only, or at jobs with several guarantees: there all jobs live on one shard, as those of one batch do.
SPREAD = {
    "test_account", "test_broker", "test_cancels", "test_chains", "test_deaths", "test_iterations", "test_locks",
    "test_periodic", "test_torture",
}  # fmt: skip
REFUSED = {
    "test_a_member_whose_lock_another_job_holds_does_not_join": "a job on shards has a lock or a group, not both",
}


def let_live_on_one_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Placement, "order", lambda placement, key: [1, 2, 0])
    monkeypatch.setattr(Placement, "home", lambda placement, key: 1)
