"""The format of log lines: Sidekiq's fields, as text for people or as JSON for machines.

Fields that a job adds, as in `log.info("sent", extra={"order": 42})`, follow the fields of this package.

Any text may come from a stranger: a payload, a server, an exception. So a record is one line, without line breaks or
control sequences for a terminal inside. Only the lines of a traceback or a stack are indented.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import simplejson

from goworkers_py.core.errors import TimeLimitExceeded
from goworkers_py.core.escaping import one_json_line, one_line
from goworkers_py.wire.failure import MAX_ERROR_MESSAGE, error_class, error_text
from goworkers_py.wire.message import current_message

# The attributes of a plain record, and those that formatters add, are no extra fields. Attributes from the program's
# record factory are, whether the program set the factory before the import of this module or after.
_BARE = vars(logging.LogRecord("", logging.NOTSET, "", 0, "", (), None))
_FIELDS = len(_BARE)
_NO_EXTRA = frozenset([*_BARE, "message", "asctime", "taskName"])

_COLOURS = {"DEBUG": 34, "INFO": 32, "WARNING": 33, "ERROR": 31, "CRITICAL": 35}

_seconds: dict[int, str] = {}  # the last second as text; every thread writes the same text for a second, so no lock


def _time(record: logging.LogRecord) -> str:
    second = int(record.created)
    text = _seconds.get(second)
    if text is None:
        text = _second(second)
        _seconds.clear()
        _seconds[second] = text
    return f"{text}.{int(record.msecs):03d}Z"


def _second(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def time_text(at: float) -> str:
    """A time for the text of a line, in the form of the line's own time."""
    try:
        return f"{_second(at)}.{int(at % 1 * 1000):03d}Z"
    except (OverflowError, ValueError, OSError):
        return str(at)  # outside the years that a calendar has


def _context(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of the job that this thread runs, and the extra fields of the record."""
    message = current_message()
    fields: dict[str, Any] = {}
    if message is not None:
        fields = {"class": message.job_class, "jid": message.jid, "queue": message.queue}
    had = vars(record)
    if len(had) > _FIELDS:
        fields |= {name: had[name] for name in had if name not in _NO_EXTRA and name not in fields}
    return fields


def _one_word(value: object) -> str:
    """Quoted if needed: a stranger's class name must not look like another field, or another line."""
    text = value if isinstance(value, str) else str(value)
    return text if text.isprintable() and " " not in text else simplejson.dumps(text)


class PlainFormatter(logging.Formatter):
    def __init__(self, coloured: bool = False) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        context = "".join(f" {name}={_one_word(value)}" for name, value in _context(record).items() if value != "")
        head, level = f"{_time(record)} pid={record.process} {record.threadName}{context}", record.levelname
        if self._coloured and level in _COLOURS:
            coloured = f"\x1b[{_COLOURS[level]}m{level}\x1b[0m"
            line = f"{one_line(head)} {coloured}: {one_line(record.getMessage())}"
        else:
            line = one_line(f"{head} {level}: {record.getMessage()}")
        return f"{line}{_below(record)}" if record.exc_info or record.stack_info else line


def _below(record: logging.LogRecord) -> str:
    texts = [text for text in (_traceback(record), record.stack_info) if text]
    return "".join(f"\n  {one_line(line)}" for text in texts for line in text.rstrip("\n").split("\n"))


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "ts": _time(record),
            "pid": record.process,
            "thread": record.threadName,
            "lvl": record.levelname,
            "logger": record.name,
            "msg": record.getMessage(),
        }
        fields = _context(record) | fields
        if record.exc_info and record.exc_info[1]:
            error = record.exc_info[1]
            fields |= {"error_class": error_class(error), "error_message": error_text(error)}
            fields["traceback"] = _traceback(record)
        if record.stack_info:
            fields["stack"] = record.stack_info
        return one_json_line(_encode(fields))


# --- tracebacks

# An endless recursion repeats its frames: both ends of its traceback are enough.
MOST_FRAMES = 100
LONGEST_TRACEBACK = 50_000


def _traceback(record: logging.LogRecord) -> str:
    """The traceback as Python prints it, with all causes, but with the text of each exception in one line."""
    kind, error, trace = record.exc_info or (None, None, None)
    if kind is None or error is None:
        return ""
    try:
        text = _printed(kind, error, trace)
    except TimeLimitExceeded:
        raise  # not a fault of the exception: it was thrown into the job that logs
    except BaseException:  # raised by methods of the exception, which may be a user's
        text = f"{error_class(error)}: {error_text(error)}"
    if len(text) > LONGEST_TRACEBACK:
        text = f"{text[: LONGEST_TRACEBACK // 2]}\n...\n{text[-LONGEST_TRACEBACK // 2 :]}"
    return text


def _printed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> str:
    whole = traceback.TracebackException(kind, error, trace, limit=-MOST_FRAMES)
    waiting = [whole]
    while waiting:
        traced = waiting.pop()
        traced.format_exception_only = _in_one_line(traced.format_exception_only)  # type: ignore[method-assign]
        causes = (traced.__cause__, traced.__context__, *(getattr(traced, "exceptions", None) or ()))
        waiting += [cause for cause in causes if cause is not None]
    return "".join(whole.format()).rstrip("\n")


def _in_one_line(parts: Callable[..., Any]) -> Callable[..., Any]:
    def escaped(*arguments: Any, **options: Any) -> list[str]:
        return [one_line(part[:MAX_ERROR_MESSAGE].rstrip("\n")) + "\n" for part in parts(*arguments, **options)]

    return escaped


def log_with_stack(log: logging.Logger, level: int, stack: str, message: str, *args: object) -> None:
    """Logs a line and, below it like a traceback, the stack of any thread."""
    if log.isEnabledFor(level):
        log.handle(log.makeRecord(log.name, level, __file__, 0, message, args, None, sinfo=stack))


# Writes a value that JSON lacks as text, and every kind of tuple as an array.
_encode = simplejson.JSONEncoder(
    ensure_ascii=False,
    allow_nan=True,
    encoding=None,  # type: ignore[arg-type]  # None refuses bytes; the type stubs lack it
    use_decimal=False,
    namedtuple_as_object=False,
    default=str,
).encode
