"""One worker thread: takes deliveries from the buffer of its pool and runs each through the chain of its queue."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from goworkers_py.core import machine
from goworkers_py.core.delivery import BEGUN, ENDED, FETCHED, Delivery
from goworkers_py.core.fork_count import FORKS
from goworkers_py.core.outcome import REQUEUE
from goworkers_py.core.pool_here import PoolHere, pool_here
from goworkers_py.core.strikes import target_of
from goworkers_py.links.perform import close_own_loop
from goworkers_py.runtime.fetching.buffer import Buffer
from goworkers_py.runtime.fetching.hand_over import Hand
from goworkers_py.runtime.lane import Lane
from goworkers_py.runtime.service import Service
from goworkers_py.runtime.settling.settlement import Settlement
from goworkers_py.runtime.shared import Shared

log = logging.getLogger(__name__)


class Worker(Service):
    """Owns the delivery in its hand. The other parts are safe to share."""

    def __init__(
        self,
        name: str,
        hand: Hand,
        buffer: Buffer,
        lanes: Mapping[str, Lane],
        settlement: Settlement,
        shared: Shared,
    ) -> None:
        super().__init__(name)
        self._hand = hand
        self._buffer = buffer
        self._lanes = lanes  # by queue
        self._settlement = settlement
        self._lease = shared.lease
        self._quarantine = shared.quarantine
        self._wall = shared.clock.wall
        self._forks = FORKS.count
        self._retired = False  # set by the watchdog's thread in `retire`

    def run(self) -> None:
        self.enter_pool()
        try:
            self.work()
            if not self._retired:
                self._buffer.worker_stopped()
        finally:
            self.close_loop()

    def work(self) -> None:
        """Runs deliveries until the hand gets no more."""
        hand = self._hand
        while not self._retired or hand.held:
            delivery = hand.take()
            if delivery is None:
                return
            if delivery.stage is FETCHED:
                self.run_once(delivery)
            else:
                self._after_strike(delivery)
            hand.release()

    def enter_pool(self) -> None:
        """In the thread that calls `work`: at its beginning, and again when something thrown has broken it off."""
        target_of(machine.get_ident()).reset()
        home = next(lane.home for lane in self._lanes.values())
        pool_here.set(PoolHere(home, frozenset(self._lanes)))

    def close_loop(self) -> None:
        """At the end of the thread that called `work`."""
        try:
            close_own_loop()
        except Exception:
            log.exception("the event loop of %s could not be closed", self.name)

    def _after_strike(self, delivery: Delivery) -> None:
        """`run` was broken off with `delivery` in hand, and has started again. Only an exception that was thrown into
        this thread from outside can break it off: the guard has an outcome for every fault of the links."""
        if delivery.stage is BEGUN:
            outcome = self._lanes[delivery.queue].guard.broken_off(delivery)
            self._settlement.put(delivery, outcome)  # dropped if the settler has an outcome already

    @property
    def running(self) -> Delivery | None:
        """From any thread."""
        delivery = self._hand.held
        return delivery if delivery is not None and delivery.begun_at else None

    def retire(self) -> bool:
        """Takes this worker out of the pool, because its job is stuck. Its thread ends when the job ends, if ever.

        Called by the watchdog's thread, which keeps the run from ending: so `_hand` does not change here.
        """
        delivery = self._hand.held
        if delivery is None or self._retired:
            return False
        self._retired = True
        self._buffer.done(delivery)
        return True

    @property
    def retired(self) -> bool:
        return self._retired

    @property
    def ended(self) -> bool:
        """For good, because it was retired or has taken a STOP."""
        return self._ended

    def run_once(self, delivery: Delivery) -> None:
        if not self._lease.surely_of(delivery.identity) and not self._still_ours(delivery):
            self._settlement.forget(delivery)
            return
        delivery.begun_at = self._wall()
        delivery.stage = BEGUN  # from here on no exception can make a worker begin it again
        if self._quarantine.closed:  # read after `begun_at` is set, see `Quarantine._admit`
            delivery.begun_at = 0.0
            self._settlement.put(delivery, REQUEUE)
            return
        outcome = self._lanes[delivery.queue].guard.run(delivery)
        if FORKS.count != self._forks:
            os._exit(0)  # a child that a link forked came back here: only the parent settles the job
        self._settlement.put(delivery, outcome)

    def _still_ours(self, delivery: Delivery) -> bool:
        """False when the job was recovered, or given back, while it waited here: this process may have been frozen."""
        while not self._lease.await_confirmation(delivery.identity, timeout_s=1.0):
            if delivery.identity != self._lease.identity or delivery.stage is ENDED:
                return False
        return True
