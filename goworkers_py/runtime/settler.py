"""One queue's settler thread: ends deliveries on the server, many in one step.

A batch whose reply got lost is asked again under its number, and the server does it once. Nothing is given up while
this process lives: what cannot be written is tried again, and stays in the in-progress list until then.
"""

from __future__ import annotations

import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable

from goworkers_py.brokers.contracts import Batch, Broker, Finished, Settled
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.core.outcome import DONE, KEEP, Outcome, Reschedule, Retry
from goworkers_py.observe.counters import Counters
from goworkers_py.policy.prefetch import AdaptivePrefetch
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import Service
from goworkers_py.runtime.unsettled import Unsettled
from goworkers_py.wire.message import describe

log = logging.getLogger(__name__)

# More than are out at once of a queue of short jobs: its threads take turns at the interpreter's lock, and a second
# exchange would have to wait for five more turns.
LARGEST_BATCH = 200
# The server does nothing else while it reads and does a batch.
LARGEST_BATCH_BYTES = 1_000_000
# What is about to end goes along: an exchange costs nearly as much for one as for ten. Jobs that end faster than that
# come together by themselves, while the exchange before is on its way.
LONGEST_LINGER_S = 0.001
SHORTEST_LINGER_S = 0.0001
PARKED_FOR_S = 2.0
# Between tries while stopping: the farewell waits for them.
HURRIED_PAUSE_S = 0.2


class Settler(Service):
    def __init__(
        self,
        queue_name: str,
        broker: Broker,
        held: Unsettled,
        pace: AdaptivePrefetch,
        counters: Counters,
        outage: Outage,
        on_retry: Callable[[float], None],
    ) -> None:
        super().__init__(f"settler:{queue_name}")
        self._queue = queue_name
        self._broker = broker
        self._held = held
        self._pace = pace
        self._counters = counters
        self._outage = outage
        self._on_retry = on_retry
        self._id = f"{queue_name}:{secrets.token_hex(6)}"
        self._inbox: queue.SimpleQueue[Finished | None] = queue.SimpleQueue()
        # Settler thread only, so no lock. A batch stays here until the server has answered it.
        self._number = 0
        self._batch: list[Finished] = []
        self._parked: list[Finished] = []
        self._parked_until = 0.0

    def put(self, delivery: Delivery, outcome: Outcome) -> None:
        """From any thread. Of two ends for the same delivery the first one counts."""
        if outcome is KEEP:
            self._held.keep(delivery)
            log.warning(
                "not acknowledged, stays in progress until this process stops: %s", describe(delivery.raw, self._queue)
            )
        else:
            delivery.ended = True
            self._inbox.put((delivery, outcome))

    def forget(self, delivery: Delivery) -> None:
        """From any thread. The delivery is somebody else's now."""
        if not delivery.ended:
            self._inbox.put((delivery, KEEP))

    def wake(self) -> None:
        self._inbox.put(None)

    def run(self) -> None:
        while True:
            if not self._batch:
                self._collect()
            if self._batch:
                self._settle()
            elif self.stopping.is_set() and not self._parked and self._inbox.empty():
                self._outage.forget(self.name)
                return

    def _collect(self) -> None:
        """Waits for the first finished delivery and takes what else has finished meanwhile."""
        size, batch = 0, self._batch
        self._number += 1  # first: under the old number the server would take what is collected for the last batch
        try:
            item = self._inbox.get(timeout=self._until_parked_are_due())
            if len(self._held) > 1:
                self._linger()
            while True:
                if item is not None and not item[0].claimed:
                    delivery, outcome = item
                    delivery.claimed = True  # the end of a worker and that of a shutdown may meet
                    if outcome is KEEP:
                        self._lost(delivery)
                    else:
                        batch.append(item)
                        size += len(delivery.raw)
                if len(batch) >= LARGEST_BATCH or size >= LARGEST_BATCH_BYTES:
                    break
                item = self._inbox.get_nowait()
        except queue.Empty:
            pass
        if self._parked and (self.stopping.is_set() or time.monotonic() >= self._parked_until):
            self._batch += self._parked
            self._parked = []

    def _lost(self, delivery: Delivery) -> None:
        """See `forget`."""
        self._held.remove([delivery])
        self._counters.add("lost_leases")

    def _linger(self) -> None:
        seconds = min(LONGEST_LINGER_S, self._pace.average_s / 4)
        if seconds >= SHORTEST_LINGER_S:
            self.stopping.wait(seconds)

    def _until_parked_are_due(self) -> float | None:
        if not self._parked:
            return 0.0 if self.stopping.is_set() else None
        return max(0.01, HURRIED_PAUSE_S if self.stopping.is_set() else self._parked_until - time.monotonic())

    def _settle(self) -> None:
        try:
            # Jobs that were not acknowledged are the oldest in the list, and the server would step over all of them.
            newest_first = self._held.kept > len(self._held) / 2
            results = self._broker.settle(Batch(self._id, self._number, self._queue, self._batch, newest_first))
        except BrokerError as error:
            self._counters.add("settle_retries")
            self._pause(self._outage.failed(self.name, error))
            return
        batch, self._batch = self._batch, []
        self._note(batch, results)

    def _note(self, batch: list[Finished], results: list[Settled]) -> None:
        errors = [result for result in dict.fromkeys(results) if isinstance(result, str)]
        if errors:
            self._counters.add("settle_retries")
            self._outage.failed(self.name, BrokerRefused(errors[0]))
            self._parked_until = time.monotonic() + PARKED_FOR_S
        elif not self._parked:
            self._outage.recovered(self.name)
        ended = []
        for (delivery, outcome), result in zip(batch, results, strict=True):
            if isinstance(result, str):
                self._parked.append((delivery, outcome))
                continue
            ended.append(delivery)
            if not result:
                self._counters.add("lost_leases")
                log.warning("ended here, but was given to others before: %s", describe(delivery.raw, self._queue))
            elif outcome is not DONE and isinstance(outcome, Retry | Reschedule):
                self._on_retry(outcome.at)
        self._held.remove(ended)

    def _pause(self, seconds: float) -> None:
        if self.stopping.is_set():
            threading.Event().wait(HURRIED_PAUSE_S)
        else:
            self.stopping.wait(seconds)
