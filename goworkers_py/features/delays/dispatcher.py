"""The thread between the lines of due tasks and the workers."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.core import machine
from goworkers_py.features.delays.book import Book
from goworkers_py.features.delays.ends import in_our_words
from goworkers_py.features.delays.pool import TaskPool
from goworkers_py.features.delays.runs import Runs
from goworkers_py.features.delays.task import HELD, DelayTask
from goworkers_py.features.delays.timers import Timers
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

WAIT_S, LATE_WAIT_S = 0.5, 0.02
# Of the rate of late tasks: how much of a second may come at once.
_BURST_S = 0.1


class Dispatcher(BrokerService):
    """Takes due tasks out of the lines, claims them and gives them to the workers: no more than these can soon run.

    Late tasks, which became due while no process looked at them, leave their line at a bounded rate.
    """

    def __init__(self, timers: Timers, book: Book, runs: Runs, pool: TaskPool, outage: Outage, pace: Pace) -> None:
        super().__init__("delay dispatcher", outage)
        self._timers = timers
        self._book = book
        self._runs = runs
        self._pool = pool
        self._pace = pace
        self._unclaimed: list[DelayTask] = []  # this thread only: taken, and the persistence could not be asked yet

    def wake(self) -> None:
        self._timers.wake()
        self._pool.wake()

    def run_once(self) -> float:
        tasks = self._unclaimed or self._next()
        if tasks:
            try:
                claimed = self._book.take(tasks, self._runs.now())
            except Exception as error:
                self._unclaimed = tasks
                raise in_our_words(error) from error
            self._unclaimed = []
            self._pool.run(claimed)
        return 0.0

    def give_back(self) -> None:
        """After the end of this thread."""
        for task in self._unclaimed:
            self._timers.give_back(task)

    def _next(self) -> list[DelayTask]:
        room = self._pool.room(self._timers.running)
        if not room:
            self._pool.wait_for_room(WAIT_S)
            return []
        wait_s = LATE_WAIT_S if self._timers.any_late else WAIT_S
        in_time, late = self._timers.take(room, self._pace.allowed(), wait_s)
        self._pace.spend(len(late))
        tasks = in_time + late
        without = {kind for kind in {task.task_type for task in tasks} if not self._runs.has_code(kind)}
        for task in tasks:
            if task.task_type in without:
                self._hold(task)
        return [task for task in tasks if task.task_type not in without]

    def _hold(self, task: DelayTask) -> None:
        """It stays in the persistence: another process, or another release of this one, may know its type."""
        held = task.with_notes({HELD: f"no executor for tasks of type {task.task_type!r}"})
        if self._timers.hold(task, held):
            self._runs.held(held)


class Pace:
    """How many late tasks may leave their line now. Used by the dispatcher's thread only."""

    def __init__(self, per_s: float, monotonic: Callable[[], float] = lambda: machine.monotonic()) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * _BURST_S)
        self._monotonic = monotonic
        self._allowed, self._at = self._most, monotonic()

    def allowed(self) -> int:
        now = self._monotonic()
        self._allowed = min(self._most, self._allowed + (now - self._at) * self._per_s)
        self._at = now
        return int(self._allowed)

    def spend(self, number: int) -> None:
        self._allowed -= number
