"""The harness of the contract tests for Redis Cluster. Each test has a namespace of its own, so another slot."""

from __future__ import annotations

import itertools

from cluster import Cluster

from goworkers_py.brokers.redis.keys import Keys


class ClusterHarness:
    _numbers = itertools.count(1)

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._namespace = f"test{next(self._numbers)}"
        self.address = cluster.url(self._namespace)

    def expire_lease(self, identity: str) -> None:
        lease = Keys(f"{{{self._namespace}}}").lease(identity)
        assert self._cluster.master_of(self._namespace).redis.delete(lease) == 1

    def close(self) -> None:
        pass
