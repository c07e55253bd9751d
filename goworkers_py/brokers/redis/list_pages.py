"""Reads a list, the newest entry first, while others push to it and take from its end."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.brokers.redis.connection import Connections


def pages_of_list(connections: Connections, key: str, at_once: int, start: int = 0) -> Iterator[list[bytes]]:
    before = set[bytes]()
    while listed := connections.call("LRANGE", key, start, start + at_once - 1):
        start += len(listed)
        # A push moves all entries by one position, so the next page begins with entries of this page.
        fresh = list(listed)
        while fresh and fresh[0] in before:
            del fresh[0]
        before = set(listed)
        if fresh:
            yield fresh
