"""The scheduler thread: promotes due entries of the retry and schedule sets into their queues.

It sleeps until the next entry is due, so a job starts on time. `poll_interval` only limits how late it notices an entry
that another program added; `DueHints` tells it of entries that this process adds. If the broker refuses one of the two
sets (its key is of another type, say), the scheduler tries that set again, and the other set is not delayed.
"""

from __future__ import annotations

import logging
from functools import lru_cache

from goworkers_py.brokers.contracts.store import TIMED, Store
from goworkers_py.config.options import Config
from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import BrokerRefused, UnreadablePayload
from goworkers_py.core.job_state import JobState
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.scheduling.due_hints import DueHints
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire import payload
from goworkers_py.wire.message import Timestamps

log = logging.getLogger(__name__)

# Entries that are promoted in one step; fewer of large ones, see `PROMOTED_BYTES` of the broker.
PROMOTED_AT_ONCE = 500
# A shorter sleep is not worth its wake-up, and the rounding of a clock could turn it into a busy loop.
SHORTEST_SLEEP_S = 0.001


class Scheduler(BrokerService):
    def __init__(self, store: Store, config: Config, hints: DueHints, clock: Clock, outage: Outage) -> None:
        super().__init__("scheduler", outage)
        self._store = store
        self._poll_interval = config.poll_interval  # any thread writes it; the scheduler's thread reads it once a look
        timestamps = Timestamps(config.timestamps)
        # All entries of one step have the same time, so the last stamp is kept.
        self._stamp = lru_cache(maxsize=1)(lambda now: payload.splicer({"enqueued_at": timestamps.write(now)}))
        self._hints = hints
        self._clock = clock

    def poll_every(self, seconds: float) -> None:
        self._poll_interval = seconds
        self.wake()

    def run_once(self) -> float:
        self._hints.begin_look()
        next_in_s = [self._look_at(state) for state in TIMED]
        poll_s = self._poll_interval * machine.random.uniform(0.75, 1.25)  # a fleet must not poll in step
        sleep_s = max(SHORTEST_SLEEP_S, min([poll_s, *(next_s for next_s in next_in_s if next_s is not None)]))
        self._hints.sleep_until(self._clock.wall() + sleep_s)
        return sleep_s

    def _look_at(self, state: JobState) -> float | None:
        try:
            next_s = self._promote_all(state)
        except BrokerRefused as error:
            return self._outage.failed(self._line_of(state), error)
        self._outage.recovered(self._line_of(state))
        return next_s

    def _line_of(self, state: JobState) -> str:
        """The name in the log lines that say that the broker refuses this set, or no longer does."""
        return f"{self.name}:{state.value}"

    def _promote_all(self, state: JobState) -> float | None:
        """Promotes all entries that are due now; returns in how many seconds the next entry is due."""
        next_s = None
        for next_s in self._store.promote(state, self._forward, PROMOTED_AT_ONCE):  # noqa: B007  # the last one counts
            if self.stopping.is_set():
                break
        return next_s

    def _forward(self, entry: bytes, now: float) -> tuple[str | None, bytes]:
        try:
            queue = payload.read(entry).get("queue")
        except UnreadablePayload as error:
            log.error("a due entry is no job and goes to the dead set: %s", error)
            return None, entry
        if not isinstance(queue, str) or not queue or not payload.encodable(queue):
            log.error("a due entry names no queue and goes to the dead set")
            return None, entry
        return queue, self._stamp(now)(entry)

    def run(self) -> None:
        super().run()
        self._hints.end()
        for state in TIMED:
            self._outage.forget(self._line_of(state))

    def wait_between(self, seconds: float) -> None:
        self._hints.wait(seconds)

    def wake(self) -> None:
        self._hints.wake()
