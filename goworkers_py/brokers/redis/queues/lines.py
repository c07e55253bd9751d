"""Lines of jobs that wait for something else than a time: parked jobs, and the pushes in outboxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from goworkers_py.brokers.redis.admin.list_pages import pages_of_list, ranges
from goworkers_py.brokers.redis.admin.moved_jobs import MovedJobs
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Argument, RedisCommand, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.line_entry import LineEntry, read
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.job_state import StateWord
from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.brokers.contracts.admin import Glance
    from goworkers_py.brokers.contracts.fleet import LineStats
    from goworkers_py.features.parts import FollowMove

PAGE = 500  # lines that are read in one step
_STATES: dict[str, StateWord] = {"dead": "dead", "delete": "cancelled"}
_REASONS = {"front": "released", "back": "retried", "dead": "killed"}  # a deletion has its own
_LEAVE_LINE = Script(LUA / "leave_line.lua")


class LineMove(NamedTuple):
    entry: LineEntry
    step: str  # as leave_line.lua names it
    queue: str = ""  # where it goes; empty for another place
    payload: bytes = b""


class Lines:
    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        dead_limits: tuple[int, float],
        registry: str,
        key: Callable[[str], str],
        follow: Sequence[FollowMove] = (),
    ) -> None:
        """`registry` is the key of the set with the names of the lines, `key` makes the key of a line."""
        self._connections = connections
        self._keys = keys
        self._dead_limits = dead_limits
        self._registry = registry
        self._key = key
        self._follow = follow
        self._holds_jobs = registry == keys.lines  # the pushes of an outbox have their records at another broker

    def names(self) -> list[str]:
        try:
            return sorted(set(self._registered()))
        except BrokerRefused:  # its access rules are of before 0.4.0
            return sorted(map(text, self._connections.call("SMEMBERS", self._registry)))

    def _registered(self) -> Iterator[str]:
        """Limits may have a line for each of a million keys."""
        cursor = b"0"
        while True:
            cursor, found = self._connections.call("SSCAN", self._registry, cursor, "COUNT", PAGE)
            yield from map(text, found)
            if cursor == b"0":
                return

    def all(self) -> list[LineStats]:
        names = self.names()
        return [line for start in range(0, len(names), PAGE) for line in self._stats(names[start : start + PAGE])]

    def _stats(self, names: Sequence[str]) -> list[LineStats]:
        now, keys = machine.time(), map(self._key, names)
        replies = self._connections.answers([ask for key in keys for ask in (("LLEN", key), ("LINDEX", key, -1))])
        lines = zip(names, replies[::2], replies[1::2], strict=True)
        from goworkers_py.brokers.contracts.fleet import LineStats  # no push and no plain worker needs it

        return [LineStats(name, size, _age(oldest, now)) for name, size, oldest in lines if size]

    def oldest(self, line: str, count: int, passed: int = 0) -> list[LineEntry]:
        """The oldest first, after the `passed` oldest ones."""
        key = self._key(line)
        pieces = ranges(passed, count, lambda: int(self._connections.call("LLEN", key)))
        listed = self._connections.exchange([("LRANGE", key, -last - 1, -first - 1) for first, last in pieces])
        return [
            read(raw, place) for place, raw in enumerate((raw for piece in listed for raw in reversed(piece)), passed)
        ]

    def readable(self, line: str, count: int, passed: int = 0) -> list[LineEntry]:
        """Like `oldest`, without the entries that nobody can read, which do not count as passed either."""
        found: list[LineEntry] = []
        start = 0
        while len(found) < passed + count:
            page = self.oldest(line, passed + count, start)
            if not page:
                break
            found += [entry for entry in page if entry.queue]
            start += len(page)
        return found[passed : passed + count]

    def from_newest(self, line: str, start: int, count: int) -> list[LineEntry]:
        return [*map(read, self._connections.call("LRANGE", self._key(line), start, start + count - 1))]

    def pages(self, line: str, at_once: int, start: int = 0) -> Iterator[list[LineEntry]]:
        """All entries, the newest first: those that leave meanwhile leave at the other end."""
        for page in pages_of_list(self._connections, self._key(line), at_once, start):
            yield [*map(read, page)]

    def glances(self, line: str, glance: Glance, start: int, count: int) -> Iterator[list[tuple[LineEntry, int]]]:
        """Each entry with the bytes of a large payload, for which something stands in; 0 for another one."""
        from goworkers_py.brokers.redis.admin.glances import glances  # for people

        for page in glances(self._connections, glance, "list", self._key(line), start, count, headed=True):
            yield [(read(entry.raw), entry.whole) for entry in page]

    def move(self, line: str, moves: Sequence[LineMove]) -> list[int | str]:
        """For each move 1, 0 when the entry had left the line, or the text of the error for which it stays there."""
        if not moves:
            return []
        keys, queues = self._keys, dict.fromkeys(move.queue for move in moves if move.queue)
        numbers = {queue: number for number, queue in enumerate(queues, 1)}
        places = [move.entry.place for move in moves]
        near = 0 if None in places else 1 + max(place for place in places if place is not None)
        jobs = MovedJobs(keys, self._dead_limits[1], self._follow)
        entries: list[Argument] = []
        for move in moves:
            payload = move.entry.payload
            entries += (move.step, numbers.get(move.queue, 0), move.queue, move.entry.raw, move.payload)
            state, reason = _STATES.get(move.step, "waiting"), _REASONS.get(move.step, text(move.payload))
            entries += jobs.effects(payload, state, reason, move.queue) if self._holds_jobs else [0]
        fixed = (self._key(line), self._registry, keys.queues, keys.dead, keys.nothing)
        names = (*fixed, *map(keys.queue, queues), *jobs.names)
        shared = (line, near, *self._dead_limits, len(queues))
        answer = self._connections.script(_LEAVE_LINE, names, [*shared, *entries])
        return [
            self._connections.explained(_LEAVE_LINE, text(result)) if isinstance(result, bytes) else result
            for result in answer
        ]

    def clear(self) -> int:
        """Deletes the entries of all lines."""
        names = self.names()
        if not names:
            return 0
        keys = [*map(self._key, names)]
        # A line that comes into being meanwhile stays, and stays registered.
        ends: list[RedisCommand] = [("UNLINK", *keys), ("SREM", self._registry, *names)]
        replies = self._connections.transaction([*(("LLEN", key) for key in keys), *ends])
        return sum(replies[:-2])


def _age(oldest: bytes | None, now: float) -> float:
    at = read(oldest).at if oldest is not None else None
    return max(0.0, now - at) if at is not None else 0.0


def parking(
    connections: Connections, keys: Keys, dead_limits: tuple[int, float], follow: Sequence[FollowMove] = ()
) -> Lines:
    return Lines(connections, keys, dead_limits, keys.lines, keys.line, follow)


def outboxes(connections: Connections, keys: Keys, dead_limits: tuple[int, float]) -> Lines:
    return Lines(connections, keys, dead_limits, keys.outboxes, keys.outbox)
