"""A pool's settler thread: waits for deliveries that have ended, and settles them."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.service import Service
from goworkers_py.runtime.settling.settlement import Settlement
from goworkers_py.runtime.shared import Shared

# The settler lingers for jobs that are about to end: an exchange costs nearly as much for one job as for ten. For very
# short jobs it does not linger: many of them end while the exchange before is on its way.
LONGEST_LINGER_S = 0.001
SHORTEST_LINGER_S = 0.0001


class Settler(Service):
    """Its thread alone settles."""

    def __init__(self, settlement: Settlement, pool: Pool, shared: Shared) -> None:
        super().__init__(settlement.name)
        self.settlement = settlement
        self._unsettled = pool.unsettled
        self._prefetch = pool.prefetch
        self._buffer = pool.buffer
        self._outage = shared.outage

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """From any thread."""
        self.settlement.give_back(deliveries)

    def run(self) -> None:
        settlement = self.settlement
        while not settlement.given_up:
            if settlement.await_ended(self.stopping) and len(self._unsettled) > 1:
                self._linger()
            if settlement.collect(self.stopping):
                if not len(self._buffer):
                    # Lets the fetcher go first, which waits for the interpreter's lock. Behind this batch, its fetch
                    # would wait, and the workers with it, until the broker has done the batch.
                    machine.sleep(0)
                settlement.settle(self.stopping)
            elif self.stopping.is_set() and settlement.is_idle:
                break
        self._outage.forget(self.name)

    def _linger(self) -> None:
        seconds = min(LONGEST_LINGER_S, self._prefetch.average_s / 4)
        if seconds >= SHORTEST_LINGER_S:
            self.stopping.wait(seconds)

    def wake(self) -> None:
        self.settlement.wake()
