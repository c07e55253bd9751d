"""Reads streams of Redis that are lists for people: each entry has one field, and its name is its position."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from goworkers_py.brokers.redis.driver.exchange import text
from goworkers_py.core.errors import ArgumentError

if TYPE_CHECKING:
    from goworkers_py.brokers.redis.driver.connection import Connections

AT_ONCE = 1_000  # entries that are read in one step
_POSITION = r"[0-9]{1,19}(-[0-9]{1,19})?"


def listed(connections: Connections, command: str, stream: str, begin: str, end: str, limit: int) -> list[Any]:
    """Up to `limit` entries, from `begin` on, by XRANGE or XREVRANGE."""
    found: list[Any] = []
    while (count := min(AT_ONCE, limit - len(found))) > 0:
        page = connections.call(command, stream, begin, end, "COUNT", count)
        found += page
        if len(page) < count:
            break
        begin = f"({text(page[-1][0])}"
    return found


def check_position(parameter: str, position: str) -> None:
    if position and not re.fullmatch(_POSITION, position):
        raise ArgumentError(f"{parameter}: {position[:100]!r} is not the position of an entry")


def added_at(name: bytes) -> float:
    """The time in the name of an entry, by the server's clock."""
    return int(name.partition(b"-")[0]) / 1000


def field_of(fields: Sequence[bytes], name: str) -> bytes:
    return dict(zip(fields[::2], fields[1::2], strict=True)).get(name.encode(), b"")
