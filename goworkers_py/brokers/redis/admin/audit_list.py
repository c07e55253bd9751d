"""The audit list: a stream of what people have changed."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.brokers.contracts.admin import ACTIONS_KEPT
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text
from goworkers_py.brokers.redis.driver.streams import added_at, check_position, field_of, listed
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.wire.audit_record import read_entry

FIELD = "entry"


class AuditList:
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def add(self, entry: str) -> None:
        self._connections.call("XADD", self._keys.audit, "MAXLEN", "~", ACTIONS_KEPT, "*", FIELD, entry)

    def before(self, position: str, limit: int) -> Sequence[AuditEntry]:
        check_position("before", position)
        end = f"({position}" if position else "+"
        entries = listed(self._connections, "XREVRANGE", self._keys.audit, end, "-", limit)
        found = [read_entry(field_of(fields, FIELD), text(name), added_at(name)) for name, fields in entries]
        return [entry for entry in found if entry is not None]
