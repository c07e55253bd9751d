"""The harness of the contract tests for RabbitMQ with a Redis beside it."""

from __future__ import annotations

from pathlib import Path

from harness import RedisHarness
from harness_rabbitmq import of_server
from rabbit import RabbitServer

from goworkers_py.brokers.broker import Capability
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.chains.contract import Chains
from goworkers_py.features.commands.contract import Calls
from goworkers_py.features.groups.contract import Groups
from goworkers_py.features.limits.contract import Limits
from goworkers_py.features.standby.contract import Leadership
from goworkers_py.features.tracking.contract import Records
from goworkers_py.features.unique.contract import Locks


class TwoServersHarness:
    # All else happens in the store alone, which the suite tests as Redis. Here the jobs of its tests are in RabbitMQ.
    left_out = frozenset({*Capability, Records, Locks, Limits, Groups, Batches, Chains, Leadership, Calls}) - {
        Capability.DELAYS, Capability.STORE, Capability.CONTROL, Capability.METRICS, Capability.SHARED,
        Capability.LASTING,
    }  # fmt: skip

    def __init__(self, server: RabbitServer, folder: Path, redis_address: str) -> None:
        self._service, self._store = of_server(server, folder), RedisHarness(redis_address)
        self.address = self._service.address
        self.options = {"store": redis_address}

    def expire_lease(self, identity: str) -> None:
        self._store.expire_lease(identity)

    def close(self) -> None:
        self._service.close()
        self._store.close()


REFUSED = {
    "test_a_broker_has_the_parts_of_its_capabilities_and_no_others": "these tests leave out capabilities that it has",
    "test_a_delivery_that_is_not_ours_any_more_leaves_the_cursor": "the store is written before the service is asked",
    "test_a_value_replaces_that_of_the_same_id": "an effect of a job of the queue service happens once for its id",
    "test_due_jobs_go_to_their_queue_in_the_order_in_which_they_were_due": "jobs on two servers have no order",
}
