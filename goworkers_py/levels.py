"""Log levels of single jobs: a job with a `log_level` has lines of that level and above, whatever the others have.

Loggers have one level for all threads. While a job runs that asks for more lines than are configured, the level of the
loggers is as low as that, and the handler leaves out those of the other threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from goworkers_py.message import Message, current_message

# Sidekiq's names.
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}


def level_of(message: Message) -> int | None:
    wish = message.get("log_level")
    return _LEVELS.get(wish.lower()) if isinstance(wish, str) else None


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
        message = current_message()
        level = None if message is None else level_of(message)
        if level is None:
            # Nearly always nobody asks for more, and then the loggers themselves have left out what is too low.
            return not self._asked or record.levelno >= min(self._configured.values())
        return record.levelno >= level

    @contextmanager
    def during(self, level: int) -> Iterator[None]:
        with self._lock:
            self._asked.append(level)
            self._set()
        try:
            yield
        finally:
            with self._lock:
                self._asked.remove(level)
                self._set()

    def _set(self) -> None:
        for logger, level in self._configured.items():
            logger.setLevel(min([level, *self._asked]))


job_levels = JobLevels()
