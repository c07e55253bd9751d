"""The base of the properties that features give to a message, see `Feature.message`."""

from __future__ import annotations

from typing import Any


class MessagePart:
    __slots__ = ()

    fields: dict[str, Any]

    def _time_in(self, field: str) -> float | None:
        """The time in this field, in epoch seconds; None for what is no time."""
        raise NotImplementedError
