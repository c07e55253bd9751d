"""How log lines look: Sidekiq's fields, as text for people or as JSON for machines.

Fields that a job adds, `log.info("sent", extra={"order": 42})`, stand beside ours.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

from goworkers_py.message import current_message

# What every record has, and what formatters leave in it.
_FIELDS = len(vars(logging.makeLogRecord({})))
_NO_EXTRA = frozenset([*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"])

_COLOURS = {"DEBUG": 34, "INFO": 32, "WARNING": 33, "ERROR": 31, "CRITICAL": 35}

_seconds: dict[int, str] = {}  # the last second as text: whichever thread writes it, it is right


def _time(record: logging.LogRecord) -> str:
    second = int(record.created)
    text = _seconds.get(second)
    if text is None:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _seconds.clear()
        _seconds[second] = text
    return f"{text}.{int(record.msecs):03d}Z"


def _context(record: logging.LogRecord) -> dict[str, Any]:
    """The job that the thread runs, and what was added to the line."""
    message = current_message()
    fields: dict[str, Any] = {}
    if message is not None:
        fields = {"class": message.job_class, "jid": message.jid, "queue": message.queue}
    had = vars(record)
    if len(had) > _FIELDS:
        fields |= {name: had[name] for name in had if name not in _NO_EXTRA and name not in fields}
    return fields


def _one_word(value: object) -> str:
    """What strangers put into a class name must not look like another field, or another line."""
    text = value if isinstance(value, str) else str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)


class PlainFormatter(logging.Formatter):
    def __init__(self, coloured: bool = False) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        told = "".join(f" {name}={_one_word(value)}" for name, value in _context(record).items() if value != "")
        level = record.levelname
        if self._coloured and level in _COLOURS:
            level = f"\x1b[{_COLOURS[level]}m{level}\x1b[0m"
        line = f"{_time(record)} pid={record.process} {record.threadName}{told} {level}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


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
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return f"{{{', '.join([f'{_quoted(name)}: {_as_json(value)}' for name, value in fields.items()])}}}"


def _as_json(value: object) -> str:
    # Nearly all are these, and the encoder takes longer to begin than for all of a line.
    if type(value) is str:
        return _quoted(value)
    return str(value) if type(value) is int else _encode(value)


_quoted: Callable[[str], str] = json.encoder.encode_basestring  # in C where CPython has it
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
