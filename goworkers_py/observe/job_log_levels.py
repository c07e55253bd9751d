"""Log levels of single jobs: a job with a `log_level` logs at that level instead of the configured one.

Python's loggers have one level for all threads. While a job with a level below the configured one runs, the loggers
have the job's level, and the log handler drops the additional lines of other threads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from goworkers_py.config.log_levels import LEVELS
from goworkers_py.core.strikes import lock_outside_runs

# The `log_level` of the job that this thread (or asyncio task) runs now; None if the job has none.
_of_run: ContextVar[int | None] = ContextVar("goworkers_py_log_level", default=None)


def level_named(wish: Any) -> int | None:
    return LEVELS.get(wish.lower()) if isinstance(wish, str) else None


class JobLevels:
    def __init__(self) -> None:
        self._lock = lock_outside_runs()
        self._configured: dict[logging.Logger, int] = {}
        self._asked: list[int] = []
        self._before: dict[logging.Logger, int] = {}  # the levels before the first `change`

    def configure(self, loggers: list[logging.Logger]) -> None:
        """`loggers` change their level with the running jobs. Their handlers must ask `wanted` about each line."""
        self._configured = {logger: logger.level for logger in loggers}

    def change(self, level: int | None) -> None:
        """Logs at this level from now on, until another call; None: at the one of the configuration. Where the program
        has set up logging itself, only our own logger changes."""
        with self._lock:
            loggers = [*self._configured] or [logging.getLogger("goworkers_py")]
            if not self._before:
                self._before = {logger: self._configured.get(logger, logger.level) for logger in loggers}
            for logger, before in self._before.items():
                logger.setLevel(before if level is None else level)
                if logger in self._configured:
                    self._configured[logger] = logger.level
            if level is None:
                self._before = {}
            self._set()

    def reconfigure(self, level: int) -> None:
        """The configuration has this level now. While a `change` is in force, this shows at its end."""
        with self._lock:
            if self._before:
                self._before = dict.fromkeys(self._before, level)
                return
            for logger in [*self._configured] or [logging.getLogger("goworkers_py")]:
                logger.setLevel(level)
                if logger in self._configured:
                    self._configured[logger] = level
            self._set()

    def wanted(self, record: logging.LogRecord) -> bool:
        """Whether to write a record: by the `log_level` of this thread's job, or else by the configured level."""
        level = _of_run.get()
        if level is None:
            # Usually no running job has a level, and the loggers have already dropped records of too low a level.
            return not self._asked or record.levelno >= min(self._configured.values())
        return record.levelno >= level

    @contextmanager
    def during(self, level: int) -> Iterator[None]:
        with self._lock:
            self._asked.append(level)
            self._set()
        token = _of_run.set(level)
        try:
            yield
        finally:
            _of_run.reset(token)
            with self._lock:
                self._asked.remove(level)
                self._set()

    def _set(self) -> None:
        for logger, level in self._configured.items():
            logger.setLevel(min([level, *self._asked]))


job_levels = JobLevels()
