"""The threads that run tasks."""

from __future__ import annotations

from collections.abc import Iterable
from queue import Empty

from goworkers_py.core import machine
from goworkers_py.core.clock import Deadline
from goworkers_py.features.delays.book import TaskFiring
from goworkers_py.features.delays.ends import Ends
from goworkers_py.features.delays.runs import Runs
from goworkers_py.features.delays.timers import Timers
from goworkers_py.links.perform import close_own_loop
from goworkers_py.runtime.service import Service

# Claimed tasks a thread: the one that runs, and the next one.
AHEAD = 2


class TaskPool:
    """Owns the workers. `run` is called by the dispatcher's thread."""

    def __init__(self, threads: int, timers: Timers, runs: Runs, ends: Ends) -> None:
        self._most = AHEAD * threads
        self._line: machine.SimpleQueue[TaskFiring | None] = machine.SimpleQueue()
        self._ends = ends
        self._room = machine.Event()
        parts = (self._line, timers, runs, ends, self._room)
        self._workers = [DelayWorker(f"delay worker:{number}", parts) for number in range(threads)]

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    @property
    def runs_here(self) -> bool:
        """The calling thread is one of the workers."""
        return any(worker.runs_here for worker in self._workers)

    def room(self, running: int) -> int:
        """How many more tasks may be claimed, while so many are."""
        self._room.clear()
        return max(0, self._most - running)

    def wait_for_room(self, seconds: float) -> None:
        self._room.wait(seconds)

    def wake(self) -> None:
        self._room.set()

    def run(self, firings: Iterable[TaskFiring]) -> None:
        for firing in firings:
            self._line.put(firing)

    def stop(self, deadline: Deadline) -> bool:
        """Gives back the tasks that did not begin. True when all others have ended in time."""
        try:
            while True:
                firing = self._line.get_nowait()
                if firing is not None:
                    self._ends.free(firing)
        except Empty:
            pass
        for worker in self._workers:
            worker.stop()
        return all(worker.join(deadline) for worker in self._workers)


class DelayWorker(Service):
    def __init__(
        self, name: str, parts: tuple[machine.SimpleQueue[TaskFiring | None], Timers, Runs, Ends, machine.Event]
    ) -> None:
        super().__init__(name)
        self._line, self._timers, self._runs, self._ends, self._room = parts

    def wake(self) -> None:
        self._line.put(None)

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                firing = self._line.get()
                if firing is not None:
                    self.run_once(firing)
        finally:
            close_own_loop()

    def run_once(self, firing: TaskFiring) -> None:
        # A task that was cancelled, moved or replaced since it was claimed is not begun.
        if self._timers.begin(firing.task):
            again = self._runs.run(firing.task)
            self._ends.end(firing, again)
            if again is not None and again.is_dead:
                self._runs.held(again)  # after its end: a function of `on_held` may move or cancel it
        self._room.set()
