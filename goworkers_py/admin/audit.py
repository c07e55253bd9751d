"""Notes what people change, and shows it."""

from __future__ import annotations

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.errors import ArgumentError
from goworkers_py.wire.audit_record import written_entry

MOST = 1_000  # entries that are read at once


class Audit:
    @property
    def _broker(self) -> Broker:
        raise NotImplementedError

    def note_action(self, who: str, action: str, what: str, count: int | None = None, *, source: str = "") -> None:
        """`inspector.note_action("ada", "retry", "dead jobs, class Mail", 12, source="10.0.0.7")` adds an entry to the
        audit list, with the time of the broker. The broker keeps about 10,000 of them. Longer texts are cut."""
        self._broker.require(Capability.CALLS)
        self._broker.calls.note_action(written_entry(who, action, what, count, source))

    def actions(self, limit: int = 50, before: str = "") -> list[AuditEntry]:
        """The newest entries of the audit list, the newest first: `inspector.actions(10)`. `before` is the position of
        an entry: those before it are returned."""
        self._broker.require(Capability.CALLS)
        if not 1 <= limit <= MOST:
            raise ArgumentError(f"limit must be 1 to {MOST:,}, is {limit}")
        return list(self._broker.calls.actions(before, limit))
