"""Delay queues for tests: stopped at the end of the test, with clocks that tests set and persistences that refuse."""

from __future__ import annotations

import time
from typing import Any

import pytest

import goworkers_py as workers
from goworkers_py.core.clock import Clock


class SetClock(Clock):
    """Shows the time that the test sets."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self.now = now

    def wall(self) -> float:
        return self.now


class Walls:
    """Steps of this machine's wall clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stepped_s = 0.0
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + self._stepped_s)

    def step(self, seconds: float) -> None:
        self._stepped_s += seconds


class Refusing(workers.MemoryPersistence):
    """Raises from the verbs in `refuses`."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: set[str] = set()

    def save(self, task: workers.DelayTask) -> None:
        self._check("save")
        super().save(task)

    def delete(self, task_id: str) -> bool:
        self._check("delete")
        return super().delete(task_id)

    def _check(self, verb: str) -> None:
        if verb in self.refuses:
            raise OSError(f"{verb} refused")


class Queues:
    """Makes delay queues with a short tick, and stops them."""

    def __init__(self) -> None:
        self._made: list[workers.DelayQueue] = []

    def made(
        self, executors: Any, persistence: Any = None, *, clock: Clock | None = None, **settings: Any
    ) -> workers.DelayQueue:
        kept = workers.MemoryPersistence() if persistence is None else persistence
        queue = workers.DelayQueue(executors, kept, **{"tick": 0.02, **settings})
        if clock is not None:
            queue.clock = clock
        self._made.append(queue)
        return queue

    def started(self, executors: Any, persistence: Any = None, **settings: Any) -> workers.DelayQueue:
        queue = self.made(executors, persistence, **settings)
        queue.start()
        return queue

    def close(self) -> None:
        for queue in self._made:
            queue.stop(20)
