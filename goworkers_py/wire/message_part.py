"""The base of the properties that features give to a message, see `Feature.message`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goworkers_py.core.home import HeldByRun, RunHome


class MessagePart:
    __slots__ = ()

    fields: dict[str, Any]
    held: RunHome | HeldByRun | None

    def _time_in(self, field: str) -> float | None:
        """The time in this field, in epoch seconds; None for what is no time."""
        raise NotImplementedError
