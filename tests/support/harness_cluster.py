"""The harness of the contract tests for Redis Cluster. Each test has a namespace of its own, so another slot."""

from __future__ import annotations

import itertools

from cluster import Cluster

from goworkers_py.brokers.redis.keys import Keys

# No contract test is about a node that fails. On a busy machine a node may stand still for longer than NODE_TIMEOUT_MS,
# and the others would take it for dead.
PATIENCE_MS = 30_000


class ClusterHarness:
    _numbers = itertools.count(1)

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._namespace = f"test{next(self._numbers)}"
        self.address = cluster.url(self._namespace)
        cluster.take_for_dead_after(PATIENCE_MS)

    def expire_lease(self, identity: str) -> None:
        lease = Keys(f"{{{self._namespace}}}").lease(identity)
        assert self._cluster.master_of(self._namespace).redis.delete(lease) == 1

    def close(self) -> None:
        pass
