"""Filters: which jobs of a place to show or to change."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import simplejson

from goworkers_py.core.values import dataclass
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import Message
from goworkers_py.wire.stored_job import DIGEST, StoredJob


class Wanted(Protocol):
    """Says which jobs are wanted: those for which `fits` is true. It need not be asked about jobs that are not between
    `since` and `until`, or have other jids than `jids`, if there are some."""

    @property
    def since(self) -> float | None:
        return None

    @property
    def until(self) -> float | None:
        return None

    @property
    def jids(self) -> Sequence[str]:
        return ()

    def fits(self, job: StoredJob) -> bool: ...


@dataclass(frozen=True, slots=True)
class Filter:
    """A job fits when it fits every field that is not empty: `workers.Filter(job_class="Mail", tag="eu")`."""

    job_class: str = ""
    jids: Sequence[str] = ()
    error: str = ""  # a part of the error's class or message
    match: str = ""  # a part of the payload's bytes; for an unreadable payload, also of its escaped form
    tag: str = ""
    argument: str = ""  # a whole argument, or the value of a keyword argument: a text, or the JSON of another value
    queue: str = ""
    # The job's time, in epoch seconds, is not before `since` and not after `until`: when it is due or died, in a queue
    # when it came there.
    since: float | None = None
    until: float | None = None

    @property
    def empty(self) -> bool:
        return not str(self)

    def __str__(self) -> str:
        """The end of a sentence that begins with "no dead jobs"."""
        fields = {
            "of class": self.job_class,
            "with jid": ", ".join(self.jids),
            "whose error contains": self.error,
            "whose payload contains": self.match,
            "with tag": self.tag,
            "with the argument": self.argument,
            "of queue": self.queue,
            "since": _clock(self.since),
            "until": _clock(self.until),
        }
        return ", ".join(f"{what} {text}" for what, text in fields.items() if text)

    def fits(self, job: StoredJob) -> bool:
        """Compares the bytes first: parsing a payload takes a hundred times as long."""
        if self.match and os.fsencode(self.match) not in job.payload and not self._fits_as_shown(job):
            return False
        if self.jids and not self._may_hold_a_jid(job.payload):
            return False
        for text in (self.job_class, self.error, self.tag, self.argument):
            if text and is_plain(text) and not _FRACTION(text) and text.encode() not in job.payload:
                return False
        if self.jids and job.jid not in self.jids:
            return False
        return self._fits_times(job) and self._fits_fields(job)

    def _may_hold_a_jid(self, raw: bytes) -> bool:
        return any(not is_plain(jid) or jid.startswith(DIGEST) or jid.encode() in raw for jid in self.jids)

    def _fits_as_shown(self, job: StoredJob) -> bool:
        """Lists show an unreadable payload escaped, as in `\\x1b`. Valid JSON has no `\\x`, so a `match` with `\\x` is
        compared with the escaped form."""
        if job.original is not None and os.fsencode(self.match) in job.original:
            return True
        unreadable = job.message is None or job.original is not None
        return "\\x" in self.match and unreadable and self.match in job.escaped

    def _fits_times(self, job: StoredJob) -> bool:
        if self.since is None and self.until is None:
            return True
        at = time_of(job)
        if at is None:
            return False
        return (self.since is None or at >= self.since) and (self.until is None or at <= self.until)

    def _fits_fields(self, job: StoredJob) -> bool:
        if not (self.job_class or self.error or self.tag or self.argument or self.queue):
            return True
        message = job.message
        return (
            message is not None
            and self.queue in ("", job.queue or message.get("queue"))
            and self.job_class in ("", message.job_class, message.get("class"), _shown_class(message))
            and (not self.error or any(self.error in text for text in _errors(message)))
            and (not self.tag or self.tag in message.tags)
            and (not self.argument or any(_is(self.argument, value) for value in _arguments(message)))
        )


class Refined(Wanted):
    """Wants the jobs of another filter for which `also` is true."""

    def __init__(self, wanted: Wanted, also: Callable[[StoredJob], bool]) -> None:
        self._wanted = wanted
        self._also = also

    @property
    def since(self) -> float | None:
        return self._wanted.since

    @property
    def until(self) -> float | None:
        return self._wanted.until

    @property
    def jids(self) -> Sequence[str]:
        return self._wanted.jids

    def fits(self, job: StoredJob) -> bool:
        return self._wanted.fits(job) and self._also(job)


def _clock(at: float | None) -> str:
    try:
        return "" if at is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
    except (OverflowError, ValueError, OSError):
        return str(at)  # outside the years of the calendar


def time_of(job: StoredJob) -> float | None:
    """When the job is due, was parked or died; in a queue when it came there. None when nobody can tell."""
    if job.at is not None:
        return job.at
    return None if job.message is None else job.message.enqueued_at or job.message.created_at


def _shown_class(message: Message) -> object:
    return message.get("display_class") if message.get("class") == enclosure.CLASS else None


def _errors(message: Message) -> Iterator[str]:
    fields = (message.get("error_class"), message.get("error_message"))
    return (text for text in fields if isinstance(text, str))


def _arguments(message: Message) -> Iterator[Any]:
    """Of a job of ActiveJob those that it wraps."""
    args: Any = message.args
    if "wrapped" in message and isinstance(args, list) and args and isinstance(args[0], dict):
        args = args[0].get("arguments")
    yield from args if isinstance(args, list) else ()
    yield from message.kwargs.values() if isinstance(message.kwargs, dict) else ()


def _is(text: str, value: Any) -> bool:
    if isinstance(value, str):
        return value == text
    said = _value(text)
    return bool(said == value) and isinstance(said, bool) == isinstance(value, bool)  # True == 1 in Python


class _Nothing:
    """The value of a text that is no JSON."""


@functools.lru_cache(maxsize=8)
def _value(text: str) -> Any:
    try:
        return simplejson.loads(text)
    except (ValueError, RecursionError):
        return _Nothing()


# Every JSON encoder writes these characters in the same way, so a text of them stands in the payload's bytes unchanged.
is_plain = re.compile(r"[A-Za-z0-9_.:-]+").fullmatch
# But for such a number: 1.5 may stand there as 1.50 or 15e-1.
_FRACTION = re.compile(r"-?[0-9]+[.eE][0-9.eE+-]*").fullmatch


def counted(number: int, singular: str = "job", plural: str = "jobs") -> str:
    return f"{number} {singular if number == 1 else plural}"
