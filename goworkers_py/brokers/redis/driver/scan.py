"""Finds keys by a pattern."""

from __future__ import annotations

from goworkers_py.brokers.contracts.admin import PAGE
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text


def keys_like(connections: Connections, pattern: str) -> set[str]:
    """Reads every name on the server: for people who can wait."""
    found: set[str] = set()
    cursor = b"0"
    while True:
        cursor, listed = connections.call("SCAN", cursor, "MATCH", pattern, "COUNT", PAGE)
        found.update(map(text, listed))
        if cursor == b"0":
            return found
