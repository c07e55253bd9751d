"""Filters: which jobs of a place to show or to change."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from goworkers_py.wire import enclosure
from goworkers_py.wire.message import Message
from goworkers_py.wire.stored_job import DIGEST, StoredJob


class Wanted(Protocol):
    def fits(self, job: StoredJob) -> bool: ...


@dataclass(frozen=True, slots=True)
class Filter:
    """A job fits when it fits every field that is not empty."""

    job_class: str = ""
    jids: Sequence[str] = ()
    error: str = ""  # a part of the error's class or message
    match: str = ""  # a part of the payload's bytes; for an unreadable payload, also of its escaped form

    @property
    def empty(self) -> bool:
        return not (self.job_class or self.jids or self.error or self.match)

    def __str__(self) -> str:
        """The end of a sentence that begins with "no dead jobs"."""
        fields = {
            "of class": self.job_class,
            "with jid": ", ".join(self.jids),
            "whose error contains": self.error,
            "whose payload contains": self.match,
        }
        return ", ".join(f"{what} {text}" for what, text in fields.items() if text)

    def fits(self, job: StoredJob) -> bool:
        """Compares the bytes first: parsing a payload takes a hundred times as long."""
        if self.match and os.fsencode(self.match) not in job.payload and not self._fits_as_shown(job):
            return False
        if self.jids and not self._may_hold_a_jid(job.payload):
            return False
        if self.jids and job.jid not in self.jids:
            return False
        return not (self.job_class or self.error) or self._fits_fields(job.message)

    def _may_hold_a_jid(self, raw: bytes) -> bool:
        return any(jid.encode() in raw or jid.startswith(DIGEST) or not _PLAIN(jid) for jid in self.jids)

    def _fits_as_shown(self, job: StoredJob) -> bool:
        """Lists show an unreadable payload escaped, as in `\\x1b`. Valid JSON has no `\\x`, so a `match` with `\\x` is
        compared with the escaped form."""
        if job.original is not None and os.fsencode(self.match) in job.original:
            return True
        unreadable = job.message is None or job.original is not None
        return "\\x" in self.match and unreadable and self.match in job.escaped

    def _fits_fields(self, message: Message | None) -> bool:
        if message is None:
            return False
        errors = (message.get("error_class"), message.get("error_message"))
        return (
            not self.job_class or self.job_class in (message.job_class, message.get("class"), _shown_class(message))
        ) and (not self.error or any(isinstance(told, str) and self.error in told for told in errors))


def _shown_class(message: Message) -> object:
    return message.get("display_class") if message.get("class") == enclosure.CLASS else None


# Every JSON encoder writes these characters in the same way, so a jid of them stands in the payload's bytes unchanged.
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+").fullmatch


def counted(number: int, one: str = "job", many: str = "jobs") -> str:
    return f"{number} {one if number == 1 else many}"
