"""Where log lines go: standard error, or a file that logrotate may move away."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from goworkers_py.errors import ConfigError
from goworkers_py.levels import job_levels
from goworkers_py.logformat import JsonFormatter, PlainFormatter

log = logging.getLogger(__name__)


def setup_logging(level: str, style: str, logfile: str = "") -> None:
    """Our lines and those of the jobs' own loggers, to standard error or a file. Leaves logging alone where the program
    has set it up already."""
    ours, root = logging.getLogger("goworkers_py"), logging.getLogger()
    ours.setLevel(level.upper())
    if root.handlers:
        return
    handler = LogFile(logfile) if logfile else Handler(sys.stderr)
    coloured = not logfile and _likes_colours(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else PlainFormatter(coloured))
    root.addHandler(handler)
    root.setLevel(level.upper())
    job_levels.configure([ours, root])


def _likes_colours(stream: TextIO) -> bool:
    """See no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Handler(logging.StreamHandler):  # type: ignore[type-arg]  # generic from Python 3.11 on
    """A job may be hit by an exception while it logs. `logging` takes this lock in Python code, between two steps of
    which the exception can leave it locked: then every thread stops at its next line, for ever."""

    def handle(self, record: logging.LogRecord) -> Any:
        kept: Any = self.filter(record)  # from Python 3.12 on it may be another record
        if kept and job_levels.wanted(record):
            assert self.lock is not None
            with self.lock:
                self.emit(kept if isinstance(kept, logging.LogRecord) else record)
        return kept

    def flush(self) -> None:
        assert self.lock is not None
        with self.lock:
            self.stream.flush()


class LogFile(logging.Handler):
    """Each line is one write to a file that is open for appending, so no thread waits for another, and processes may
    share the file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = Path(path).absolute()
        self._file = self._open()
        with Path(os.devnull).open("wb") as nowhere:  # where the output of a detached process goes
            self._redirect_output(nowhere.fileno())

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ConfigError(f"logfile {self._path}: cannot be written: {error.strerror}") from None

    def handle(self, record: logging.LogRecord) -> Any:
        kept: Any = self.filter(record)
        if kept and job_levels.wanted(record):
            self.emit(kept if isinstance(kept, logging.LogRecord) else record)
        return kept

    def emit(self, record: logging.LogRecord) -> None:
        try:
            os.write(self._file, f"{self.format(record)}\n".encode("utf-8", "backslashreplace"))
        except Exception:
            self.handleError(record)

    def reopen(self) -> None:
        """After logrotate has moved it away. The file keeps its number, under which others may be writing just now."""
        fresh = self._open()
        old = os.dup(self._file)
        os.dup2(fresh, self._file, inheritable=False)
        self._redirect_output(old)
        os.close(old)
        os.close(fresh)

    def _redirect_output(self, of: int) -> None:
        """What is printed goes here too, unless it goes elsewhere than `of`."""
        for standard in (1, 2):
            with suppress(OSError):  # it is closed
                if os.path.sameopenfile(standard, of):
                    os.dup2(self._file, standard)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        super().close()


def log_files() -> list[LogFile]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, LogFile)]


def reopen_log_files() -> None:
    for file in log_files():
        try:
            file.reopen()
        except ConfigError as error:
            log.error("%s; going on with the old one", error)
    log.info("the log file is opened anew")
