"""The recoverer thread: gives the jobs of dead processes back to their queues."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable

from goworkers_py.brokers.base import Broker, Recovered
from goworkers_py.counters import Counters
from goworkers_py.identity import Lease
from goworkers_py.message import describe
from goworkers_py.outage import Outage
from goworkers_py.service import BrokerService

log = logging.getLogger(__name__)

LOOK_EVERY_S = 15.0
# Others reconnect within the longest back-off after an outage and then beat at once.
STEADY_FOR_S = 15.0


class Recoverer(BrokerService):
    def __init__(
        self, broker: Broker, lease: Lease, steady_for: Callable[[], float], counters: Counters, outage: Outage
    ) -> None:
        super().__init__("recoverer", outage)
        self._broker = broker
        self._lease = lease
        self._steady_for = steady_for
        self._counters = counters

    def run_once(self) -> float:
        recovered = self._broker.recover(self._lease.identity, by_lease=self._steady_for() >= STEADY_FOR_S)
        self._counters.add("recovered", len(recovered))
        report(recovered, "recovered from dead process")
        return LOOK_EVERY_S * random.uniform(0.8, 1.2)


def report(jobs: Iterable[Recovered], what: str) -> None:
    """One line a job."""
    for job in jobs:
        log.warning("%s %s: %s", what, job.owner, describe(job.raw, job.queue))
