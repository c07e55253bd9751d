"""Reads long lists in pieces: the server answers one command at a time, and serves nobody else meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from goworkers_py.brokers.redis.driver.connection import Connections

T = TypeVar("T")

PIECE = 500  # entries that are read by one command


def ranges(start: int, count: int, size: Callable[[], int]) -> list[tuple[int, int]]:
    """The first and the last place of each piece of `count` entries from `start` on. `size` tells how many entries
    there are, and is called only for more than one piece."""
    if count > PIECE:
        count = min(count, size() - start)
    return [(first, min(first + PIECE, start + count) - 1) for first in range(start, start + count, PIECE)]


def pages_of_list(connections: Connections, key: str, at_once: int, start: int = 0) -> Iterator[list[bytes]]:
    """The newest entry first, while others push to the list and take from its end."""
    return fresh_pages(lambda first: connections.call("LRANGE", key, first, first + at_once - 1), start)


def fresh_pages(read: Callable[[int], list[T]], start: int) -> Iterator[list[T]]:
    before = set[T]()
    while listed := read(start):
        start += len(listed)
        # A push moves all entries by one position, so the next page begins with entries of this page.
        fresh = list(listed)
        while fresh and fresh[0] in before:
            del fresh[0]
        before = set(listed)
        if fresh:
            yield fresh
