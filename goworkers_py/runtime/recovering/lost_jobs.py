"""Which running jobs this process does not hold any more."""

from __future__ import annotations

from collections.abc import Iterable

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.delivery import Delivery
from goworkers_py.runtime.alive.lease import Lease


def lost_jobs(broker: Broker, lease: Lease, running: Iterable[Delivery]) -> Iterable[Delivery]:
    """The running jobs that were recovered, after this process was silent for longer than its lease. The broker is
    asked only about jobs that were fetched under an earlier identity: those of the present one are not recovered."""
    now = lease.identity
    earlier = [delivery for delivery in running if delivery.identity != now]
    if not earlier or Capability.LEASES not in broker.capabilities:
        return ()
    return broker.recoverable.lost(earlier)
