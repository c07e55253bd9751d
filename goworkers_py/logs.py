"""How log lines look: Sidekiq's fields, as text for people or as JSON for machines."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from goworkers_py.errors import ConfigError
from goworkers_py.message import current_message

log = logging.getLogger(__name__)


def setup_logging(level: str, style: str, logfile: str = "") -> None:
    """Our lines and those of the jobs' own loggers, to standard error or a file. Leaves logging alone where the program
    has set it up already."""
    logging.getLogger("goworkers_py").setLevel(level.upper())
    root = logging.getLogger()
    if root.handlers:
        return
    handler = LogFile(logfile) if logfile else Handler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else PlainFormatter())
    root.addHandler(handler)
    root.setLevel(level.upper())


class Handler(logging.StreamHandler):  # type: ignore[type-arg]  # generic from Python 3.11 on
    """A job may be hit by an exception while it logs. `logging` takes this lock in Python code, between two steps of
    which the exception can leave it locked: then every thread stops at its next line, for ever."""

    def handle(self, record: logging.LogRecord) -> Any:
        kept: Any = self.filter(record)  # from Python 3.12 on it may be another record
        if kept:
            assert self.lock is not None
            with self.lock:
                self.emit(kept if isinstance(kept, logging.LogRecord) else record)
        return kept

    def flush(self) -> None:
        assert self.lock is not None
        with self.lock:
            self.stream.flush()


class LogFile(Handler):
    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        super().__init__(self._open())
        with Path(os.devnull).open("wb") as nowhere:  # where the output of a detached process goes
            self._redirect_output(nowhere.fileno())

    def _open(self) -> TextIO:
        try:
            return self._path.open("a", encoding="utf-8", errors="backslashreplace")  # for life
        except OSError as error:
            raise ConfigError(f"logfile {self._path}: cannot be written: {error.strerror}") from None

    def reopen(self) -> None:
        """After logrotate has moved it away."""
        fresh = self._open()
        assert self.lock is not None
        with self.lock:
            old, self.stream = self.stream, fresh
        self._redirect_output(old.fileno())
        old.close()

    def _redirect_output(self, of: int) -> None:
        """What is printed goes here too, unless it goes elsewhere than `of`."""
        for standard in (1, 2):
            with suppress(OSError):  # it is closed
                if os.path.sameopenfile(standard, of):
                    os.dup2(self.stream.fileno(), standard)


def log_files() -> list[LogFile]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, LogFile)]


def reopen_log_files() -> None:
    for file in log_files():
        try:
            file.reopen()
        except ConfigError as error:
            log.error("%s; going on with the old one", error)
    log.info("the log file is opened anew")


def _context(record: logging.LogRecord) -> dict[str, str]:
    """What is known of the line: the job that its thread runs, and how long that took."""
    fields: dict[str, str] = {}
    message = current_message()
    if message is not None:
        fields = {"class": message.job_class, "jid": message.jid, "queue": message.queue}
    duration = getattr(record, "duration", None)
    if duration is not None:
        fields["elapsed"] = f"{duration:.3f}"
    return fields


def _time(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _one_word(value: str) -> str:
    """What strangers put into a class name must not look like another field, or another line."""
    return value if value.isprintable() and " " not in value else json.dumps(value)


class PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = "".join(f" {name}={_one_word(value)}" for name, value in _context(record).items() if value)
        line = f"{_time(record)} pid={os.getpid()} {record.threadName}{told} {record.levelname}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "ts": _time(record),
            "pid": os.getpid(),
            "thread": record.threadName,
            "lvl": record.levelname,
            "logger": record.name,
            "msg": record.getMessage(),
            **_context(record),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)
