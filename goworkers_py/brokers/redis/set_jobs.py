"""The jobs of the sets `schedule`, `retry` and `dead`: people list and change them while processes use the sets.

A job is found again by its exact bytes, and a job that is moved is in one place at every instant.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.contracts.admin import PAGE, Change, Changed, Decide, PlacedJobs
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.exchange import Argument, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.record_keys import RecordKeys, lives
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.wire import enclosure, payload
from goworkers_py.wire.message import describe_job
from goworkers_py.wire.stored_job import StoredJob

_MOVE = Script(Path(__file__).parent / "lua" / "move.lua")


class SetJobs(PlacedJobs):
    def __init__(self, connections: Connections, keys: Keys, state: JobState, dead_limits: tuple[int, float]) -> None:
        """`dead_limits`: how many jobs the dead set keeps at most, and for how many seconds."""
        self._connections = connections
        self._keys = keys
        self._state = state
        self._key = {JobState.SCHEDULED: keys.schedule, JobState.RETRY: keys.retry, JobState.DEAD: keys.dead}[state]
        self._dead_limits = dead_limits

    def count(self) -> int:
        return int(self._connections.call("ZCARD", self._key))

    def first(self, limit: int) -> list[StoredJob]:
        return _stored(self._connections.call("ZRANGE", self._key, 0, limit - 1, "WITHSCORES")) if limit else []

    def at(self, time: float) -> list[StoredJob]:
        return _stored(self._connections.call("ZRANGE", self._key, time, time, "BYSCORE", "WITHSCORES"))

    def around(self, time: float) -> Iterator[tuple[int, StoredJob]]:
        raise ArgumentError(f"no queue: {self._state.value}")

    def take_out(self, job: StoredJob, place: int = 0) -> bool:
        return self._move([(job.payload, None, b"")]).done == 1

    def pages(self, newest_first: bool = False) -> Iterator[list[StoredJob]]:
        """All entries by their time. Entries that come or go meanwhile hide no other entry."""
        reverse = "REV" if newest_first else ""
        start = 0
        while listed := self._connections.call(f"Z{reverse}RANGE", self._key, start, start + PAGE - 1, "WITHSCORES"):
            members, scores = listed[::2], listed[1::2]
            yield _stored(listed)
            # The next page begins after the last entry of this page that is still in the set, at its present rank: all
            # entries before it have been seen.
            left = self._ranks(members[-1:], reverse) or self._ranks(members, reverse)
            start = max(left) + 1 if left else self._before(scores[0], newest_first)

    def _ranks(self, members: Sequence[bytes], reverse: str) -> list[int]:
        """The ranks of those members that are still in the set."""
        ranks = self._connections.exchange([(f"Z{reverse}RANK", self._key, member) for member in members])
        return [rank for rank in ranks if rank is not None]

    def _before(self, score: bytes, newest_first: bool) -> int:
        """How many entries come before the first one with that score. They were seen, or came meanwhile."""
        limits = (b"(" + score, "+inf") if newest_first else ("-inf", b"(" + score)
        return int(self._connections.call("ZCOUNT", self._key, *limits))

    def change(self, decide: Decide) -> Iterator[tuple[int, Changed]]:
        for page in self.pages():
            changes = decide(page)
            yield len(page), self._move([self._goal(change) for change in changes])

    def clear(self) -> int:
        size, _ = self._connections.transaction([("ZCARD", self._key), ("UNLINK", self._key)])
        return int(size)

    def _goal(self, change: Change) -> tuple[bytes, str | None, bytes]:
        """The entry, its queue ('': the dead set; None: it is deleted) and its payload there. In the dead set, a
        payload that Ruby cannot read is enclosed as text."""
        entry, to = change.job.payload, change.to
        if to is None:
            return entry, None, b""
        if to.state is JobState.DEAD and self._state is not JobState.DEAD:
            return entry, "", enclosure.readable(change.payload, change.job.queue, time.time())
        if to.state is not JobState.WAITING:
            raise ArgumentError(f"no jobs are moved from {self._state.value} to {to.state.value}")
        queue = self._keys.bare(to.queue)
        return entry, queue, change.payload if queue == to.queue else payload.splice(change.payload, {"queue": queue})

    def _move(self, moves: Sequence[tuple[bytes, str | None, bytes]]) -> Changed:
        if not moves:
            return Changed()
        queues = dict.fromkeys(queue for _, queue, _ in moves if queue)
        numbers: dict[str | None, int] = {"": 0, None: -1}
        numbers.update({queue: number for number, queue in enumerate(queues, 1)})
        records = RecordKeys(self._keys)
        arguments: list[Argument] = [*self._dead_limits, *lives(self._dead_limits), len(queues)]
        for entry, queue, rewritten in moves:
            arguments += (numbers[queue], queue or "", records.number(entry), entry, rewritten)
        fixed = (self._key, self._keys.queues, self._keys.dead, self._keys.nothing)
        keys = [*fixed, *map(self._keys.queue, queues), *records.names]
        answer = self._connections.script(_MOVE, keys, arguments)
        problems = [
            f"not moved: {describe_job(entry, queue or '')}: {self._connections.explained(_MOVE, text(told))}"
            for (entry, queue, _), told in zip(moves, answer, strict=True)
            if isinstance(told, bytes)
        ]
        return Changed(sum(told for told in answer if isinstance(told, int)), problems)


def _stored(listed: Sequence[bytes]) -> list[StoredJob]:
    return [StoredJob(member, at=float(score)) for member, score in zip(listed[::2], listed[1::2], strict=True)]
