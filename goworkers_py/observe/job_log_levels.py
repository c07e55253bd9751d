"""Log levels of single jobs: a job with a `log_level` has lines of that level and above, whatever the others have.

Loggers have one level for all threads. While a job runs that asks for more lines than are configured, the level of the
loggers is as low as that, and the handler leaves out those of the other threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from goworkers_py.config.log_levels import LEVELS

# That of the job which this thread (or task) runs now; None where the job asks for none.
_of_run: ContextVar[int | None] = ContextVar("goworkers_py_log_level", default=None)


def level_named(wish: Any) -> int | None:
    return LEVELS.get(wish.lower()) if isinstance(wish, str) else None


class JobLevels:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._configured: dict[logging.Logger, int] = {}
        self._asked: list[int] = []

    def configure(self, loggers: list[logging.Logger]) -> None:
        """Their lines go through `wanted`."""
        self._configured = {logger: logger.level for logger in loggers}

    def wanted(self, record: logging.LogRecord) -> bool:
        """Whether the thread that logs it asked for lines of that level."""
        level = _of_run.get()
        if level is None:
            # Nearly always nobody asks for more, and then the loggers themselves have left out what is too low.
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
