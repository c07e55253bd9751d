"""Sends log lines to standard error, or to a file that logrotate may move away."""

from __future__ import annotations

import logging
import os
import stat
import sys
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import Any, TextIO

from goworkers_py.core.errors import ConfigError, JobCancelled, TimeLimitExceeded
from goworkers_py.observe.job_log_levels import job_levels
from goworkers_py.observe.log_format import JsonFormatter, PlainFormatter
from goworkers_py.system.output import Output
from goworkers_py.wire.failure import error_class, error_text

log = logging.getLogger(__name__)

STANDARD_ERROR = 2
NOWHERE = -1  # the program was started without standard error: its number may be another file's now


def setup_logging(level: str, style: str, logfile: str = "") -> None:
    """Sends our lines and those of the jobs' own loggers to standard error or a file. Changes nothing where the program
    has set up logging already."""
    ours, root = logging.getLogger("goworkers_py"), logging.getLogger()
    ours.setLevel(level.upper())
    if root.handlers:
        return
    handler = LogFile(logfile) if logfile else Handler(STANDARD_ERROR if sys.stderr is not None else NOWHERE)
    coloured = not logfile and sys.stderr is not None and _likes_colours(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else PlainFormatter(coloured))
    root.addHandler(handler)
    root.setLevel(level.upper())
    job_levels.configure([ours, root])


def _likes_colours(stream: TextIO) -> bool:
    """See no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Handler(logging.Handler):
    """Writes each line through `output`, and takes no lock around it."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.descriptor = descriptor
        self._output = Output(descriptor, self._dropped)

    def handle(self, record: logging.LogRecord) -> Any:
        kept: Any = self.filter(record)  # a boolean, or from Python 3.12 on perhaps another record
        if kept and job_levels.wanted(record):
            self.emit(kept if isinstance(kept, logging.LogRecord) else record)
        return kept

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._line(record)
        except (TimeLimitExceeded, JobCancelled):
            raise  # thrown into the worker's thread whose job logs
        except Exception as error:
            line = self._line(_of_mistake(record, error))
        self._output.write(line)

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode("utf-8", "backslashreplace")

    def _dropped(self, count: int) -> bytes:
        what = (
            "log lines that were dropped here: %d; they could not be written, or nobody read them: "
            "look for a full disk, or for a reader that has stopped"
        )
        record = log.makeRecord(log.name, logging.WARNING, __file__, 0, what, (count,), None)
        return Context().run(self._line, record)  # without the context of the job that logs now

    def flush(self) -> None:
        self._output.flush()

    def close(self) -> None:
        self._output.close()
        super().close()


def _of_mistake(record: logging.LogRecord, error: Exception) -> logging.LogRecord:
    """Replaces a line whose arguments do not fit its text, or cannot be shown."""
    text = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
    args = (record.pathname, record.lineno, text, error_class(error), error_text(error))
    return log.makeRecord(log.name, logging.ERROR, __file__, 0, "%s:%d cannot log %r: %s: %s", args, None)


class LogFile(Handler):
    """A file, opened for appending, so that several processes may share it."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self._file = self._open()
        super().__init__(self._file)
        with Path(os.devnull).open("wb") as nowhere:  # the output of a detached process goes there
            self._redirect_output(nowhere.fileno())

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ConfigError(f"logfile {self._path}: cannot be written: {error.strerror}") from None

    def reopen(self) -> None:
        """After logrotate has moved the file away. The descriptor keeps its number: other threads may be using it."""
        fresh = self._open()
        old = os.dup(self._file)
        os.dup2(fresh, self._file, inheritable=False)
        self._output.turn_to(self._file)
        self._redirect_output(old)
        os.close(old)
        os.close(fresh)

    def _redirect_output(self, of: int) -> None:
        """Sends standard output and standard error to the log file too, each only if it goes to the file `of` now."""
        for standard in (1, 2):
            with suppress(OSError):  # the stream is closed
                if os.path.sameopenfile(standard, of):
                    os.dup2(self._file, standard)


def is_for_everybody() -> bool:
    """Whether the log is a file that every user of this machine may read."""
    return any(
        everybody_reads(handler.descriptor) for handler in logging.getLogger().handlers if isinstance(handler, Handler)
    )


def everybody_reads(descriptor: int) -> bool:
    """False for what is no file, such as a terminal or a pipe."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IROTH)


def log_files() -> list[LogFile]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, LogFile)]


def reopen_log_files() -> None:
    for file in log_files():
        try:
            file.reopen()
        except ConfigError as error:
            log.error("%s; going on with the old file", error)
    log.info("log file reopened")
