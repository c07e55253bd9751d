"""Reads the jobs of a list or a set for people, with a budget of bytes for each reply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from goworkers_py.brokers.contracts.admin import PAGE, Glance
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Script
from goworkers_py.brokers.redis.driver.replies import list_of
from goworkers_py.core.values import NamedTuple
from goworkers_py.wire.stand_in import HEAD, TAIL, stand_in

_GLANCE = Script(LUA / "glance.lua", list_of(bytes, int))
_OLDEST = Script(LUA / "oldest.lua", list_of(bytes, int))
LISTS = 100  # that are looked at in one script, which holds up the server
# Bytes of one answer, and of the entries that the server looks at for it, which takes about a millisecond for each MB.
MOST_ANSWERED, MOST_LOOKED_AT = 500_000, 8_000_000

Order = Literal["list", "rising", "falling"]


class Seen(NamedTuple):
    raw: bytes  # the entry, or what stands in for it
    at: float | None  # its score
    whole: int  # the bytes of an entry for which something stands in; 0: it is whole


def glances(
    connections: Connections, glance: Glance, order: Order, key: str, start: int, count: int, headed: bool = False
) -> Iterator[list[Seen]]:
    """`start` below 0: from the end of a list to its beginning. `headed`: each entry begins with a line of its own."""
    while count > 0:
        size = min(count, PAGE)
        rules = (glance.longest, glance.jid, glance.longest_of_jid, HEAD, TAIL, MOST_ANSWERED, MOST_LOOKED_AT)
        reply = connections.script(_GLANCE, [key], (order, start, size, *rules))
        page = [_seen(reply[at : at + 4], headed) for at in range(0, len(reply), 4)]
        if not page:
            return
        yield page
        start += -len(page) if start < 0 else len(page)
        count -= len(page)


def oldest_of(connections: Connections, lists: Iterable[str]) -> Iterator[tuple[int, bytes]]:
    """Of each list its size, -1 for a key of another type, and its oldest job, or what stands in for that."""
    keys = list(lists)
    for first in range(0, len(keys), LISTS):
        reply = connections.script(_OLDEST, keys[first : first + LISTS], (Glance().longest, HEAD, TAIL))
        for at in range(0, len(reply), 4):
            size, job, whole, tail = reply[at : at + 4]
            yield size, stand_in(job, tail, whole) if tail else job


def _seen(fields: list[Any], headed: bool) -> Seen:
    head, score, size, tail = fields
    at = float(score) if score else None
    if not tail:
        return Seen(head, at, 0)
    line, end, payload = head.partition(b"\n") if headed else (b"", b"", head)
    size -= len(line) + len(end)
    return Seen(line + end + stand_in(payload, tail, size), at, size)
