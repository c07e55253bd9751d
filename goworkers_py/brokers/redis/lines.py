"""The lines: jobs that are parked in them wait until they are released."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from goworkers_py.brokers.contracts.fleet import LineStats
from goworkers_py.brokers.redis import parked
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.exchange import Argument, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.list_pages import pages_of_list
from goworkers_py.brokers.redis.parked import Parked
from goworkers_py.core.errors import BrokerRefused

_UNPARK = Script(Path(__file__).parent / "lua" / "unpark.lua")

# Entries that one call of unpark.lua moves at most: the server serves nobody else meanwhile.
RELEASED_AT_ONCE = 100


def _age(first: bytes | None, now: float) -> float:
    at = parked.read(first).at if first is not None else None
    return max(0.0, now - at) if at is not None else 0.0


class Move(NamedTuple):
    parked: Parked
    step: str  # as unpark.lua names it
    queue: str  # where it goes; empty for another place
    payload: bytes


class Lines:
    def __init__(self, connections: Connections, keys: Keys, dead_limits: tuple[int, float]) -> None:
        self._connections = connections
        self._keys = keys
        self._dead_limits = dead_limits

    def names(self) -> list[str]:
        return sorted(map(text, self._connections.call("SMEMBERS", self._keys.lines)))

    def all(self) -> list[LineStats]:
        names, now = self.names(), time.time()
        keys = map(self._keys.line, names)
        replies = self._connections.answers([ask for key in keys for ask in (("LLEN", key), ("LINDEX", key, -1))])
        lines = zip(names, replies[::2], replies[1::2], strict=True)
        return [LineStats(name, size, _age(first, now)) for name, size, first in lines if size]

    def release(self, line: str, count: int) -> int:
        released = 0
        while released < count:
            at_once = min(count - released, RELEASED_AT_ONCE)
            oldest = self._connections.call("LRANGE", self._keys.line(line), -at_once, -1)
            if not oldest:
                break
            # The newest comes first: each goes to the front of its queue, so the oldest of them is consumed next.
            moves = [Move(one, "front", one.queue, one.payload) for one in map(parked.read, oldest) if one.queue]
            answer = self.move(line, moves)
            released += answer.count(1)
            if errors := [told for told in answer if isinstance(told, str)]:
                raise BrokerRefused(f"jobs of line {line} cannot be released: {errors[0]}")
            if not moves:
                raise BrokerRefused(f"jobs of line {line} cannot be released: {oldest[-1][:80]!r} is no parked job")
        return released

    def move(self, line: str, moves: Sequence[Move]) -> list[int | str]:
        """For each move 1, 0 when the job had left the line, or the text of the error for which it stays there."""
        if not moves:
            return []
        keys, queues = self._keys, dict.fromkeys(move.queue for move in moves if move.queue)
        numbers = {queue: number for number, queue in enumerate(queues, 1)}
        arguments: list[Argument] = [line, *self._dead_limits]
        for move in moves:
            arguments += (move.step, numbers.get(move.queue, 0), move.queue, move.parked.entry, move.payload)
        fixed = (keys.line(line), keys.lines, keys.queues, keys.dead, keys.nothing)
        answer = self._connections.script(_UNPARK, (*fixed, *map(keys.queue, queues)), arguments)
        return [
            self._connections.explained(_UNPARK, text(told)) if isinstance(told, bytes) else told for told in answer
        ]

    def entries(self, line: str, at_once: int) -> Iterator[list[Parked]]:
        """All entries, the newest first: jobs that are released meanwhile leave at the other end."""
        yield from (
            [*map(parked.read, page)] for page in pages_of_list(self._connections, self._keys.line(line), at_once)
        )

    def from_newest(self, line: str, start: int, count: int) -> list[Parked]:
        return [*map(parked.read, self._connections.call("LRANGE", self._keys.line(line), start, start + count - 1))]

    def oldest(self, line: str, count: int) -> list[Parked]:
        listed = self._connections.call("LRANGE", self._keys.line(line), -count, -1) if count else []
        return [*map(parked.read, reversed(listed))]

    def clear(self) -> int:
        """Deletes all jobs of all lines."""
        keys = [*map(self._keys.line, self.names())]
        if not keys:
            return 0
        replies = self._connections.transaction([*(("LLEN", key) for key in keys), ("UNLINK", self._keys.lines, *keys)])
        return sum(replies[:-1])
