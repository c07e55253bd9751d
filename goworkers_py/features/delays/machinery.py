"""The threads of a started delay queue, from the start to the stop.

wheel thread --lines of due tasks--> dispatcher --claimed tasks--> workers --ends--> persistence
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from goworkers_py.core.clock import Deadline
from goworkers_py.core.values import dataclass
from goworkers_py.features.delays.book import Book
from goworkers_py.features.delays.dispatcher import Dispatcher, Pace
from goworkers_py.features.delays.ends import Ends
from goworkers_py.features.delays.executors import Code
from goworkers_py.features.delays.held_tasks import HeldTasks
from goworkers_py.features.delays.keeper import TaskKeeper
from goworkers_py.features.delays.pool import TaskPool
from goworkers_py.features.delays.runs import Runs
from goworkers_py.features.delays.timers import Timers
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import Service

log = logging.getLogger(__name__)

# For what a stop does after the workers: some steps of the persistence.
_LAST_STEPS_S = 5.0


@dataclass(frozen=True, slots=True)
class DelaySettings:
    tick: float
    slots: int
    threads: int
    late_per_s: float


class WheelThread(Service):
    """Moves what is due from the wheel into the lines. It calls no persistence and no code of the user, so it never
    waits for either."""

    def __init__(self, timers: Timers, tick: float, now: Callable[[], float]) -> None:
        super().__init__("delay wheel")
        self._timers = timers
        self._tick = tick
        self._now = now

    def run(self) -> None:
        # The wait is by the monotonic clock, which stands while the machine sleeps; `now` goes on. So the first tick
        # after the sleep finds everything that became due.
        while not self.stopping.wait(self._tick - self._now() % self._tick):
            self._timers.tick(self._now())


class Machinery:
    def __init__(
        self,
        settings: DelaySettings,
        timers: Timers,
        book: Book,
        find: Callable[[str], Code | None],
        now: Callable[[], float],
        held: HeldTasks,
    ) -> None:
        outage = Outage("the persistence of the delay queue")
        runs = Runs(find, now, held.tell)
        self._book = book
        self._ends = Ends(book, outage)
        self._pool = TaskPool(settings.threads, timers, runs, self._ends)
        self._wheel = WheelThread(timers, settings.tick, now)
        self._dispatcher = Dispatcher(timers, book, runs, self._pool, outage, Pace(settings.late_per_s))
        self._keeper = TaskKeeper(book, self._ends, outage)

    def start(self) -> None:
        self._keeper.start()
        self._pool.start()
        self._dispatcher.start()
        self._wheel.start()

    @property
    def runs_here(self) -> bool:
        """The calling thread runs a task."""
        return self._pool.runs_here

    def stop(self, timeout: float) -> bool:
        deadline = Deadline(timeout)
        for service in (self._wheel, self._dispatcher):
            service.stop()
        for service in (self._wheel, self._dispatcher):
            service.join(Deadline(_LAST_STEPS_S))
        self._dispatcher.give_back()
        ended = self._pool.stop(deadline)
        # The lease is kept up until here: the tasks that run are not claimed elsewhere.
        self._keeper.stop()
        self._keeper.join(Deadline(_LAST_STEPS_S))
        try:
            self._ends.tell_again()
            if ended:
                self._book.leave()
        except Exception as error:
            log.warning("the persistence could not be told of the stop; ended tasks may run again: %s", error)
        if not ended:
            log.warning("delayed tasks still run at the end of the stop; they run again at the next start")
        return ended
