"""The scheduler thread: moves due entries of the retry and schedule sets into their queues.

It sleeps until the next entry is due, so a job starts on time; `poll_interval` only bounds how late it learns of an
entry that another program added. What this process adds itself, it is told of. A set that the server refuses (its key
is of another type, say) is tried again and keeps the other one waiting for nothing.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from functools import lru_cache

from goworkers_py.brokers.contracts import Broker, WaitingSet
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import BrokerRefused, UnreadablePayload
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire import enclosure as burial
from goworkers_py.wire import payload
from goworkers_py.wire.message import Timestamps

log = logging.getLogger(__name__)

AT_ONCE = 500
# Below this a sleep is not worth its wake-up; also keeps a clock's rounding from turning into a busy loop.
SHORTEST_SLEEP_S = 0.001


class Scheduler(BrokerService):
    def __init__(
        self, broker: Broker, poll_interval: float, timestamps: Timestamps, clock: Clock, outage: Outage
    ) -> None:
        super().__init__("scheduler", outage)
        self._broker = broker
        self._poll_interval = poll_interval
        # The entries of one step have the same time.
        self._stamp = lru_cache(maxsize=1)(lambda now: payload.splicer({"enqueued_at": timestamps.write(now)}))
        self._clock = clock
        self._hinted = threading.Event()
        self._sleeps_until = -math.inf  # wall clock; -inf while awake

    def hint(self, at: float) -> None:
        """Something was scheduled for `at`: look again if that is before the next look."""
        if at < self._sleeps_until:
            self._hinted.set()

    def run_once(self) -> float:
        self._sleeps_until = math.inf  # a hint from here on must not be missed
        self._hinted.clear()
        next_in_s = [self._look_at(waiting) for waiting in WaitingSet]
        poll_s = self._poll_interval * random.uniform(0.75, 1.25)  # a fleet must not poll in step
        sleep_s = max(SHORTEST_SLEEP_S, min([poll_s, *(next_s for next_s in next_in_s if next_s is not None)]))
        self._sleeps_until = self._clock.wall() + sleep_s
        return sleep_s

    def _look_at(self, waiting: WaitingSet) -> float | None:
        try:
            next_s = self._promote_all(waiting)
        except BrokerRefused as error:
            return self._outage.failed(self._line_of(waiting), error)
        self._outage.recovered(self._line_of(waiting))
        return next_s

    def _line_of(self, waiting: WaitingSet) -> str:
        """Who says so in the log when the server refuses this set, and when it does not any more."""
        return f"{self.name}:{waiting.value}"

    def _promote_all(self, waiting: WaitingSet) -> float | None:
        """Everything that is due now; returns in how many seconds the next entry is."""
        skip = 0  # entries that cannot be moved must not stand before those that can
        while True:
            step = self._broker.promote(waiting, self._forward, AT_ONCE, skip)
            skip += step.stuck
            if not step.more or self.stopping.is_set():
                return step.next_in_s

    def _forward(self, entry: bytes, now: float) -> tuple[str | None, bytes]:
        try:
            queue = payload.read(entry).get("queue")
        except UnreadablePayload as error:
            log.error("a due entry is no job and goes to the dead set: %s", error)
            return None, burial.readable(entry, "", now)
        if not isinstance(queue, str) or not queue or not payload.encodable(queue):
            log.error("a due entry names no queue and goes to the dead set")
            return None, burial.readable(entry, "", now)
        return queue, self._stamp(now)(entry)

    def run(self) -> None:
        super().run()
        for waiting in WaitingSet:
            self._outage.forget(self._line_of(waiting))

    def wait_between(self, seconds: float) -> None:
        self._hinted.wait(seconds)

    def wake(self) -> None:
        self._hinted.set()
