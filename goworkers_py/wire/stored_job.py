"""One job as it lies in a broker, for people to see."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import simplejson

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.escaping import one_json_line
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import Message
from goworkers_py.wire.payload import splice

# How the name of a job begins that has no jid.
DIGEST = "sha1:"


@dataclass(frozen=True)
class StoredJob:
    payload: bytes
    queue: str = ""  # empty where the job itself names it
    at: float | None = None  # when it is due, or died

    @cached_property
    def message(self) -> Message | None:
        """None: not a job that anybody can read."""
        try:
            return Message(self.payload, self.queue)
        except UnreadablePayload:
            return None

    @cached_property
    def original(self) -> bytes | None:
        """The payload that is kept here as text, if it is one of those, see `enclosure`."""
        return None if self.message is None else enclosure.original(self.message.fields)

    @property
    def jid(self) -> str:
        """The job's, or a name that the bytes give to one without a jid."""
        jid = "" if self.message is None else self.message.jid
        return jid or DIGEST + hashlib.sha1(self.payload, usedforsecurity=False).hexdigest()[:16]

    @property
    def escaped(self) -> str:
        """All bytes of its payload, in one line that every terminal can show."""
        shown = self.payload if self.original is None else self.original
        return "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode()
            for char in shown.decode("utf-8", "backslashreplace")
        )

    @property
    def as_json(self) -> str:
        """One line. The job is written as it lies there: no number changes its digits."""
        # A time may be infinite, for which JSON has no number.
        at = "" if self.at is None else f'"at":{simplejson.dumps(self.at if math.isfinite(self.at) else str(self.at))},'
        if self.message is None:
            return (
                f'{{{at}"jid":"{self.jid}","unreadable":{simplejson.dumps(self.payload.decode("utf-8", "replace"))}}}'
            )
        return one_json_line(f'{{{at}"job":{splice(self.payload, {}).decode("utf-8")}}}')
