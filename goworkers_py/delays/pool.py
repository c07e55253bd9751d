"""The threads that run tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue

from goworkers_py.core.clock import Deadline
from goworkers_py.delays.ends import Ends
from goworkers_py.delays.runs import Runs
from goworkers_py.delays.timers import Timers
from goworkers_py.links.perform import close_own_loop
from goworkers_py.runtime.service import Service
from goworkers_py.wire.delay_task import DelayTask

# Claimed tasks a thread: the one that runs, and the next one.
AHEAD = 2


class Pool:
    """Owns the workers. `run` is called by the dispatcher's thread."""

    def __init__(self, threads: int, timers: Timers, runs: Runs, ends: Ends) -> None:
        self._most = AHEAD * threads
        self._line: SimpleQueue[DelayTask | None] = SimpleQueue()
        self._ends = ends
        self._room = threading.Event()
        parts = (self._line, timers, runs, ends, self._room)
        self._workers = [DelayWorker(f"delay worker:{number}", parts) for number in range(threads)]

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def room(self, running: int) -> int:
        """How many more tasks may be claimed, while so many are."""
        self._room.clear()
        return max(0, self._most - running)

    def wait_for_room(self, seconds: float) -> None:
        self._room.wait(seconds)

    def wake(self) -> None:
        self._room.set()

    def run(self, tasks: Iterable[DelayTask]) -> None:
        for task in tasks:
            self._line.put(task)

    def stop(self, deadline: Deadline) -> bool:
        """Gives back the tasks that did not begin. True when all others have ended in time."""
        try:
            while True:
                task = self._line.get_nowait()
                if task is not None:
                    self._ends.free(task)
        except Empty:
            pass
        for worker in self._workers:
            worker.stop()
        return all(worker.join(deadline) for worker in self._workers)


class DelayWorker(Service):
    def __init__(
        self, name: str, parts: tuple[SimpleQueue[DelayTask | None], Timers, Runs, Ends, threading.Event]
    ) -> None:
        super().__init__(name)
        self._line, self._timers, self._runs, self._ends, self._room = parts

    def wake(self) -> None:
        self._line.put(None)

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                task = self._line.get()
                if task is not None:
                    self.run_once(task)
        finally:
            close_own_loop()

    def run_once(self, task: DelayTask) -> None:
        # A task that was cancelled or replaced since it was claimed is not begun.
        if self._timers.is_running(task):
            again = self._runs.run(task)
            self._ends.end(task, again)
        self._room.set()
