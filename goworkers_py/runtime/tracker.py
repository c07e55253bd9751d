"""The tracker thread: writes into the records of tracked jobs that they run, and how far they have got.

All other moves of a job are written in the step of the move. That a job runs is written some milliseconds late, for
many jobs in one step, and not at all for a job that has ended by then: so a short job costs nothing here.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from goworkers_py.brokers.contracts.store import RunningMark, Store
from goworkers_py.core.delivery import ENDED, Delivery
from goworkers_py.core.outcome import Outcome
from goworkers_py.links.chain import Run
from goworkers_py.policy.tracking import Tracking
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService
from goworkers_py.wire.message import Message

# The first change waits so long for others. A job is shown as running at most 50 ms after it began.
COLLECT_S = 0.03
# The progress of a job is written again after so long.
PROGRESS_EVERY_S = 0.5
# How often to try to write that a job runs: the server may be out of memory, or the job has just ended.
MOST_TRIES = 3
# Jobs in one step.
AT_ONCE = 500


class Tracker(BrokerService):
    def __init__(self, store: Store, tracking: Tracking, outage: Outage) -> None:
        super().__init__("tracker", outage)
        self._store = store
        self.tracking = tracking
        # Deliveries that began or told progress. A put is one step of C code: an exception may strike the worker.
        self._changed: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        # Tracker's thread only: those that are to be written, with how often that was tried; and those whose progress
        # was written, with the time from which on it may be written again (monotonic).
        self._pending: dict[Delivery, int] = {}
        self._marked: dict[Delivery, float] = {}
        # Called by this thread with the deliveries that have just been marked for the first time.
        self.on_begun: Callable[[Iterable[Delivery]], None] = lambda begun: None

    def run_job(self, message: Message, delivery: Delivery, chain: Run) -> Outcome:
        """In the worker's thread."""
        changed = self._changed
        run = self.tracking.begin(message, lambda: changed.put(delivery))
        if run is None:
            return chain(message)
        message.tracked = delivery.tracked = run
        changed.put(delivery)
        return self.tracking.noted(message, run, chain(message))

    def run_once(self) -> float:
        self._collect()
        now = time.monotonic()
        self._marked = {one: due for one, due in self._marked.items() if one.stage is not ENDED}
        self._pending = {one: tries for one, tries in self._pending.items() if one.stage is not ENDED}
        due = [one for one in self._pending if self._marked.get(one, 0.0) <= now][:AT_ONCE]
        if due:
            new = [one for one in due if one not in self._marked]
            written = self._store.mark_running([_mark(one, first=one not in self._marked) for one in due])
            for one, done in zip(due, written, strict=True):
                self._written(one, done, now)
            self.on_begun([one for one in new if one in self._marked])
        return COLLECT_S if self._pending else 0.0

    def _written(self, one: Delivery, done: bool, now: float) -> None:
        if done:
            self._marked[one] = now + PROGRESS_EVERY_S
        self._pending[one] += 1
        if done or self._pending[one] >= MOST_TRIES:
            del self._pending[one]

    def _collect(self) -> None:
        with suppress(queue.Empty):
            while (delivery := self._changed.get_nowait()) is not None:
                self._pending.setdefault(delivery, 0)

    def wait_between(self, seconds: float) -> None:
        if seconds > 0:
            self.stopping.wait(seconds)
            return
        delivery = self._changed.get()
        if delivery is not None:
            self._pending.setdefault(delivery, 0)
            self.stopping.wait(COLLECT_S)

    def wake(self) -> None:
        self._changed.put(None)


def _mark(delivery: Delivery, first: bool) -> RunningMark:
    run = delivery.tracked
    assert run is not None
    return RunningMark(run.job, delivery, run.progress, first)
