"""One job that a broker holds, for people to read."""

from __future__ import annotations

import hashlib
import math
from functools import cached_property

import simplejson

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.escaping import one_json_line
from goworkers_py.core.values import dataclass
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import Message
from goworkers_py.wire.payload import splice

# A job without a jid is named by this and a digest of its bytes.
DIGEST = "sha1:"


@dataclass(frozen=True)
class StoredJob:
    payload: bytes
    queue: str = ""  # empty if only the payload names it
    at: float | None = None  # time at which the job is due, was parked, or died
    line: str = ""  # of a parked job; of a push in an outbox, the broker to which it goes
    whole: int = 0  # bytes of a large payload for which `payload` stands in, see `stand_in`

    @property
    def size(self) -> int:
        return self.whole or len(self.payload)

    @cached_property
    def message(self) -> Message | None:
        """The parsed payload; None if it is unreadable."""
        try:
            return Message(self.payload, self.queue)
        except UnreadablePayload:
            return None

    @cached_property
    def original(self) -> bytes | None:
        """The payload inside an enclosing job, see `enclosure`; None for any other job."""
        return None if self.message is None else enclosure.original(self.message.fields)

    @property
    def jid(self) -> str:
        """The jid as it was written, even if it cannot be a name; for a job without one, a name made from its bytes."""
        jid = None if self.message is None else self.message.fields.get("jid")
        if isinstance(jid, str) and jid:
            return jid
        return DIGEST + hashlib.sha1(self.payload, usedforsecurity=False).hexdigest()[:16]

    @property
    def escaped(self) -> str:
        """The whole payload (of an enclosing job: the one inside), escaped into one line that every terminal shows."""
        shown = self.payload if self.original is None else self.original
        return "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode()
            for char in shown.decode("utf-8", "backslashreplace")
        )

    @property
    def as_json(self) -> str:
        """One line. The job's text is spliced in as it is stored: no number changes its digits."""
        # A time may be infinite, for which JSON has no number.
        at = "" if self.at is None else f'"at":{simplejson.dumps(self.at if math.isfinite(self.at) else str(self.at))},'
        if self.line:
            at += f'"line":{simplejson.dumps(self.line)},'
        if self.message is None:
            return (
                f'{{{at}"jid":"{self.jid}","unreadable":{simplejson.dumps(self.payload.decode("utf-8", "replace"))}}}'
            )
        return one_json_line(f'{{{at}"job":{splice(self.payload, {}).decode("utf-8")}}}')
