"""Ends the runs of jobs that this process does not hold any more, because it seemed dead for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.delivery import Delivery
from goworkers_py.links.interruption import lose
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alive.lease import Lease


class LostJobs:
    def __init__(
        self, broker: Broker, lease: Lease, running: Callable[[], Iterable[Delivery]], registry: Registry
    ) -> None:
        self._broker, self._lease = broker, lease
        self._running = running
        self._registry = registry

    def look(self) -> None:
        """By the heartbeat's thread."""
        lose(self.found(), self._registry)

    def found(self) -> Sequence[Delivery]:
        """The running jobs that were recovered, after this process was silent for longer than its lease. The broker is
        asked only about jobs that were fetched under an earlier identity: those of the present one are not
        recovered."""
        now = self._lease.identity
        earlier = [delivery for delivery in self._running() if delivery.identity != now]
        if not earlier or Capability.LEASES not in self._broker.capabilities:
            return ()
        return self._broker.recoverable.lost(earlier)
