"""One entry of a queue or a set as it lies there, and which entries somebody wants to see or change."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.observe.escaping import one_json_line
from goworkers_py.wire import enclosure as burial
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message

# Entries of a queue or a set that are read in one step.
PAGE = 500
# How the name of an entry begins that has no jid.
DIGEST = "sha1:"


@dataclass(frozen=True)
class Entry:
    raw: bytes
    queue: str = ""  # empty in a set, where the job itself names it
    at: float | None = None  # its score in a set: when it is due, or died

    @cached_property
    def message(self) -> Message | None:
        """None: not a job that anybody can read."""
        try:
            return Message(self.raw, self.queue)
        except UnreadablePayload:
            return None

    @cached_property
    def original(self) -> bytes | None:
        """The payload that is kept here as text, if it is one of those, see `burial`."""
        return None if self.message is None else burial.original(self.message.fields)

    @property
    def jid(self) -> str:
        """The job's, or a name that the bytes give to an entry without one."""
        jid = "" if self.message is None else self.message.jid
        return jid or DIGEST + hashlib.sha1(self.raw, usedforsecurity=False).hexdigest()[:16]

    @property
    def escaped(self) -> str:
        """All bytes of its payload, in one line that every terminal can show."""
        shown = self.raw if self.original is None else self.original
        return "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode()
            for char in shown.decode("utf-8", "backslashreplace")
        )

    @property
    def as_json(self) -> str:
        """One line. The job is written as it lies there: no number changes its digits."""
        # A score may be infinite, for which JSON has no number.
        at = "" if self.at is None else f'"at":{json.dumps(self.at if math.isfinite(self.at) else str(self.at))},'
        if self.message is None:
            return f'{{{at}"jid":"{self.jid}","unreadable":{json.dumps(self.raw.decode("utf-8", "replace"))}}}'
        return one_json_line(f'{{{at}"job":{payload.splice(self.raw, {}).decode("utf-8")}}}')


@dataclass(frozen=True, slots=True)
class Filter:
    """All that is given must fit."""

    job_class: str = ""
    jids: Sequence[str] = ()
    error: str = ""  # a part of the error's class or message
    match: str = ""  # a part of the payload as it is written, or as it is shown where it cannot be read

    @property
    def empty(self) -> bool:
        return not (self.job_class or self.jids or self.error or self.match)

    def __str__(self) -> str:
        """As in: no retries <this>."""
        said = {
            "of class": self.job_class,
            "with jid": ", ".join(self.jids),
            "with this in their error:": self.error,
            "with this in their payload:": self.match,
        }
        return ", ".join(f"{what} {text}" for what, text in said.items() if text)

    def fits(self, entry: Entry) -> bool:
        """First what can be told from the bytes, because reading a job takes a hundred times as long."""
        if self.match and os.fsencode(self.match) not in entry.raw and not self._fits_as_shown(entry):
            return False
        if self.jids and not self._may_be_named(entry.raw):
            return False
        if self.jids and entry.jid not in self.jids:
            return False
        return not (self.job_class or self.error) or self._fits_fields(entry.message)

    def _may_be_named(self, raw: bytes) -> bool:
        return any(jid.encode() in raw or jid.startswith(DIGEST) or not _PLAIN(jid) for jid in self.jids)

    def _fits_as_shown(self, entry: Entry) -> bool:
        """What no JSON holds is taken for a part of what is shown of an entry that cannot be read."""
        if entry.original is not None and os.fsencode(self.match) in entry.original:
            return True
        unreadable = entry.message is None or entry.original is not None
        return "\\x" in self.match and unreadable and self.match in entry.escaped

    def _fits_fields(self, message: Message | None) -> bool:
        if message is None:
            return False
        errors = (message.get("error_class"), message.get("error_message"))
        return (
            not self.job_class or self.job_class in (message.job_class, message.get("class"), _shown_class(message))
        ) and (not self.error or any(isinstance(told, str) and self.error in told for told in errors))


def _shown_class(message: Message) -> object:
    return message.get("display_class") if message.get("class") == burial.CLASS else None


# What JSON has only one way to write.
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+").fullmatch


def counted(number: int, one: str = "job", many: str = "jobs") -> str:
    return f"{number} {one if number == 1 else many}"
