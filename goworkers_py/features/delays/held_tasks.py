"""Reports tasks that do not run by themselves any more: to the log and to the user's functions."""

from __future__ import annotations

import logging
from collections.abc import Callable

from goworkers_py.features.delays.task import DelayTask

log = logging.getLogger(__name__)

# How many task types are remembered, so that each is reported once.
MOST_TYPES = 1_000


class HeldTasks:
    def __init__(self) -> None:
        self.functions: list[Callable[[DelayTask], object]] = []
        self._logged: set[str] = set()  # two threads may log a type at the same time: no harm

    def tell(self, task: DelayTask) -> None:
        if not task.is_dead:  # that was logged with its traceback, when it died
            self._log(task)
        for function in self.functions:
            try:
                function(task)
            except Exception:
                log.exception("a function of on_held failed id=%s", task.id)

    def _log(self, task: DelayTask) -> None:
        if task.task_type and task.task_type in self._logged:
            return
        if len(self._logged) >= MOST_TYPES:
            self._logged.clear()
        self._logged.add(task.task_type)
        log.error(
            "a delayed task is held: %s; it is kept: add what it lacks and start again, or cancel(id) type=%s id=%s",
            task.held,
            task.task_type or "?",
            task.id,
        )
