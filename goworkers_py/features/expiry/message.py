"""What a message says of its expiry."""

from __future__ import annotations

from goworkers_py.features.expiry.payload import EXPIRES_AT, EXPIRY
from goworkers_py.wire.message_part import MessagePart


class ExpiringMessage(MessagePart):
    __slots__ = ()

    @property
    def expires_at(self) -> float | None:
        """The job is not begun after this time. Only a number is one: a text that go-workers writes is no such time."""
        field = EXPIRES_AT if EXPIRES_AT in self.fields else EXPIRY
        return None if isinstance(self.fields.get(field), str) else self._time_in(field)
