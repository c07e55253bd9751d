"""The harnesses of our own brokers for the contract tests, see `harness`."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import redis as redis_py
from cluster import Cluster
from disque_server import DisqueServer
from rabbit import RabbitServer
from servers import flush

from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.memory.broker import forget, state_at
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.calls.contract import Calls
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.tracking.contract import Records
from goworkers_py.features.unique.contract import Locks

# No contract test is about a node that fails. On a busy machine a node may stand still for longer than NODE_TIMEOUT_MS,
# and the others would take it for dead.
PATIENCE_MS = 30_000
_numbers = itertools.count(1)  # of namespaces and virtual hosts
_unused: list[str] = []  # virtual hosts in which a test has made no queue


class MemoryHarness:
    def __init__(self, folder: Path) -> None:
        self.address = f"memory://{folder.name}"

    def expire_lease(self, identity: str) -> None:
        state = state_at(self.address)
        {**state.leases, **state.block_owners}[identity].expires_at = 0.0

    def close(self) -> None:
        forget(self.address)


class RedisHarness:
    def __init__(self, address: str) -> None:
        self.address = address
        self._empty()

    def expire_lease(self, identity: str) -> None:
        with redis_py.Redis.from_url(self.address) as client:
            assert client.delete(Keys().lease(identity)) == 1

    def close(self) -> None:
        self._empty()

    def _empty(self) -> None:
        flush(self.address)


class ClusterHarness:
    """Each test has a namespace of its own, so another slot."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._namespace = f"test{next(_numbers)}"
        self.address = cluster.url(self._namespace)
        cluster.take_for_dead_after(PATIENCE_MS)

    def expire_lease(self, identity: str) -> None:
        lease = Keys(f"{{{self._namespace}}}").lease(identity)
        assert self._cluster.master_of(self._namespace).redis.delete(lease) == 1

    def close(self) -> None:
        pass


class DirHarness:
    """The broker of examples/dir-broker, which a package of its own adds."""

    def __init__(self, folder: Path) -> None:
        self.address = f"dir://{folder}"

    def close(self) -> None:
        """The folder goes with the test."""


class DisqueHarness:
    def __init__(self, server: DisqueServer) -> None:
        self._server = server
        self.address = server.url
        server.forget_jobs()

    def expire_lease(self, identity: str) -> None:
        raise NotImplementedError("Disque has no leases")

    def close(self) -> None:
        self._server.forget_jobs()


class RabbitHarness:
    """Each test has a virtual host without queues."""

    def __init__(self, server: RabbitServer) -> None:
        self._server = server
        self._vhost = _unused.pop() if _unused else f"test-{os.getpid()}-{next(_numbers)}"
        self.address = server.new_vhost(self._vhost)

    def expire_lease(self, identity: str) -> None:
        raise NotImplementedError("RabbitMQ has no leases")

    def close(self) -> None:
        if self._server.has_queues(self._vhost):
            self._server.delete_vhost(self._vhost)
        else:
            _unused.append(self._vhost)


class TwoServersHarness:
    """RabbitMQ with a Redis beside it."""

    # All else happens in the store alone, which the suite tests as Redis. Here the jobs of its tests are in RabbitMQ.
    left_out = frozenset({*Capability, Records, Locks, Limits, Groups, Batches, Chains, Leadership, Calls}) - {
        Capability.DELAYS, Capability.STORE, Capability.CONTROL, Capability.METRICS, Capability.SHARED,
        Capability.LASTING,
    }  # fmt: skip

    def __init__(self, server: RabbitServer, redis_address: str) -> None:
        self._service, self._store = RabbitHarness(server), RedisHarness(redis_address)
        self.address = self._service.address
        self.options = {"store": redis_address}

    def expire_lease(self, identity: str) -> None:
        self._store.expire_lease(identity)

    def close(self) -> None:
        self._service.close()
        self._store.close()


# Tests that need not hold on two servers, and why.
REFUSED = {
    "test_a_broker_has_the_parts_of_its_capabilities_and_no_others": "these tests leave out capabilities that it has",
    "test_a_delivery_that_is_not_ours_any_more_leaves_the_cursor": "the store is written before the service is asked",
    "test_a_value_replaces_that_of_the_same_id": "an effect of a job of the queue service happens once for its id",
    "test_due_jobs_go_to_their_queue_in_the_order_in_which_they_were_due": "jobs on two servers have no order",
}
