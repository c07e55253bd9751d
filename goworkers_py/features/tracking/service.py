"""The tracker thread: writes into the records of tracked jobs that they run, and how far they have got.

All other moves of a job are written in the step of the move. That a job runs is written some milliseconds late, for
many jobs in one step, and not at all for a job that has ended by then: so a short job costs nothing here.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from goworkers_py.core import machine
from goworkers_py.core.delivery import ENDED, Delivery
from goworkers_py.features.tracking.contract import Records, RunningMark
from goworkers_py.features.tracking.tracked_run import run_of
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

# The first change waits so long for others. A job is shown as running at most 50 ms after it began.
COLLECT_S = 0.03
# The progress of a job is written again after so long.
PROGRESS_EVERY_S = 0.5
# How often to try to write that a job runs: the server may be out of memory, or the job has just ended.
MOST_TRIES = 3
# Jobs in one step.
AT_ONCE = 500


class Tracker(BrokerService):
    def __init__(
        self,
        records: Records | None,
        running: Callable[[], Iterable[Delivery]],
        outage: Outage,
        shown: Callable[[Iterable[Delivery]], None] = lambda deliveries: None,
    ) -> None:
        """`records`: None where the broker has none. This thread calls `shown` with the deliveries that it has just
        marked for the first time."""
        super().__init__("tracker", outage)
        self._records = records
        self._running = running
        self._shown = shown
        # A worker sets `delivery.of_features` or `progress` first, then reads `_idle`. This thread sets `_idle` first,
        # then looks at the running jobs. So at least one of the two sees what the other one has set.
        self._idle = False
        self._woken: machine.SimpleQueue[None] = machine.SimpleQueue()  # a put is one step of C code, see `look_soon`
        # Tracker's thread only: of the running jobs, what was written of them and how often it was tried.
        self._marks: dict[Delivery, _Mark] = {}

    # --- the workers' threads

    def look_soon(self) -> None:
        """A tracked job begins, or has told its progress. Nearly always this does nothing: while tracked jobs run, the
        thread looks at them anyway. Workers never set `_idle`: an exception may strike a worker between any two steps,
        or it may be late."""
        if self._idle:
            self._woken.put(None)

    # --- the thread

    def run_once(self) -> float:
        marks = self._marks = {delivery: self._marks.get(delivery) or _Mark() for delivery in self._tracked()}
        now = machine.monotonic()
        due = [delivery for delivery, mark in marks.items() if mark.is_due(delivery, now)][:AT_ONCE]
        if due:
            due_marks = [_mark(delivery, first=not marks[delivery].done) for delivery in due]
            written = [False] * len(due_marks) if self._records is None else self._records.mark_running(due_marks)
            new = [delivery for delivery, done in zip(due, written, strict=True) if done and not marks[delivery].done]
            for mark, done in zip(due_marks, written, strict=True):
                marks[mark.delivery].note(mark.progress, done, now)
            self._shown(new)
        return COLLECT_S if any(mark.is_wanted(delivery) for delivery, mark in marks.items()) else 0.0

    def _tracked(self) -> Iterator[Delivery]:
        """The tracked jobs that run."""
        return (
            delivery for delivery in self._running() if run_of(delivery) is not None and delivery.stage is not ENDED
        )

    def wait_between(self, seconds: float) -> None:
        if seconds > 0:
            self.stopping.wait(seconds)
            return
        self._idle = True
        if not any(self._marks.get(delivery, _NEW).is_wanted(delivery) for delivery in self._tracked()):
            self._woken.get()
            self._idle = False
            self.stopping.wait(COLLECT_S)
        self._idle = False
        with suppress(queue.Empty):  # one look is for all who have told until now
            while True:
                self._woken.get_nowait()

    def wake(self) -> None:
        self._woken.put(None)


class _Mark:
    """The state of a running job that was written last."""

    done = False  # that it runs
    progress: str | None = None
    due = 0.0  # progress is written again from this time on (monotonic)
    tries = 0

    def is_wanted(self, delivery: Delivery) -> bool:
        run = run_of(delivery)
        assert run is not None
        return self.tries < MOST_TRIES and (not self.done or run.progress is not self.progress)

    def is_due(self, delivery: Delivery, now: float) -> bool:
        return self.due <= now and self.is_wanted(delivery)

    def note(self, progress: str | None, done: bool, now: float) -> None:
        if done:
            self.done, self.progress, self.due, self.tries = True, progress, now + PROGRESS_EVERY_S, 0
            return
        self.tries += 1
        if self.done and self.tries >= MOST_TRIES:  # until the job tells more
            self.progress, self.tries = progress, 0


_NEW = _Mark()


def _mark(delivery: Delivery, first: bool) -> RunningMark:
    run = run_of(delivery)
    assert run is not None
    return RunningMark(run.job, delivery, run.progress, first, run.also(run, first))
