"""An index: a sorted set with the names of records, by when each changed last."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text

PAGE = 100


def last_changed_first(connections: Connections, index: str) -> Iterator[list[str]]:
    """Pages of names. Each name is in one page only, also if its record changes while the index is read."""
    start, seen = 0, set[str]()
    while page := connections.call("ZREVRANGE", index, start, start + PAGE - 1):
        start += len(page)
        names = [name for name in map(text, page) if name not in seen]  # one that moves ahead moves the others back
        seen.update(names)
        yield names
