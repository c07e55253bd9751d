"""The recoverer thread: gives the jobs of dead processes back to their queues, and buries those that killed them."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable

from goworkers_py.brokers.contracts import Broker, Found, Recovered
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import PoisonPill
from goworkers_py.links.retry import Handlers
from goworkers_py.observe.counters import Counters
from goworkers_py.policy.poison import PoisonPolicy, RecoveryDecision
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire.message import Message, describe

log = logging.getLogger(__name__)

LOOK_EVERY_S = 15.0
# After an outage, and when the server came back with an older state, for as long as a lease lasts: all that live have
# renewed theirs by then.
STEADY_FOR_S = 60.0


class Recoverer(BrokerService):
    def __init__(
        self,
        broker: Broker,
        lease: Lease,
        proof: Callable[[float], str | None],
        policy: PoisonPolicy,
        handlers: Handlers,
        counters: Counters,
        clock: Clock,
        outage: Outage,
    ) -> None:
        super().__init__("recoverer", outage)
        self._broker = broker
        self._lease = lease
        self._proof = proof
        self._policy = policy
        self._handlers = handlers
        self._counters = counters
        self._clock = clock
        self._asked = threading.Event()
        self._deaths: list[tuple[Message, PoisonPill]] = []  # the handlers are still to be told of

    def look_now(self) -> None:
        self._asked.set()

    def run_once(self) -> float:
        self._asked.clear()
        try:
            self.recover()
        finally:
            self.tell_of_deaths()
        return LOOK_EVERY_S * random.uniform(0.8, 1.2)

    def recover(self) -> None:
        """In the thread that starts this process, and after that in this service's own."""
        for job in self._broker.recover(self._lease.identity, self._judge, self._proof(STEADY_FOR_S)):
            error = job.decision.error
            if error is None:
                self._counters.add("recovered")
                report([job], "recovered from dead process")
            else:
                self._counters.add("poison")
                log.error("poison: %s: %s", describe(job.raw, job.queue), error)
                self._deaths.append((Message(job.raw, job.queue), error))

    def tell_of_deaths(self) -> None:
        deaths, self._deaths = self._deaths, []
        for message, error in deaths:
            self._handlers.tell_of_death(message, error)

    def _judge(self, found: Found) -> RecoveryDecision:
        return self._policy.judge(found.raw, found.queue, found.owner, found.begun, found.alone, now=self._clock.wall())

    def wait_between(self, seconds: float) -> None:
        self._asked.wait(seconds)

    def wake(self) -> None:
        self._asked.set()


def report(jobs: Iterable[Recovered], what: str) -> None:
    """One line a job, as soon as it is there."""
    for job in jobs:
        log.warning("%s %s: %s", what, job.owner, describe(job.raw, job.queue))
