"""The persistence of a delay queue that is lost with the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goworkers_py.features.delays.task import DelayTask


class MemoryPersistence:
    """Tasks that need not outlive the process: `workers.DelayQueue(executors, workers.MemoryPersistence())`. A second
    DelayQueue on the same object, after the end of the first one, goes on with its tasks: for tests."""

    def __init__(self) -> None:
        # Called by one thread at a time, see the contract. Plain tuples, as in the wheel.
        self._tasks: dict[str, tuple[Any, ...]] = {}

    def save(self, task: DelayTask) -> None:
        self._tasks[task.id] = tuple(task)

    def save_many(self, tasks: Sequence[DelayTask]) -> None:
        self._tasks.update((task.id, tuple(task)) for task in tasks)

    def list(self) -> list[DelayTask]:
        return [DelayTask(*kept) for kept in self._tasks.values()]

    def delete(self, task_id: str) -> bool:
        return self._tasks.pop(task_id, None) is not None
