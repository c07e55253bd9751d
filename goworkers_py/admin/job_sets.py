"""The sets `retry`, `schedule` and `dead` as people see and change them, while processes work them.

Whatever is changed is named by its exact bytes, and a job that moves is in one place at every instant.
"""

from __future__ import annotations

import enum
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goworkers_py.admin.entries import PAGE, Entry
from goworkers_py.brokers.redis.connection import Argument, Connections, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.wire import enclosure as burial
from goworkers_py.wire import payload
from goworkers_py.wire.message import Timestamps, describe, jid_where_missing

_MOVE = Script(Path(__file__).parents[1] / "brokers/redis/lua/move.lua")


class SetName(enum.Enum):
    RETRIES = "retries"
    SCHEDULED = "scheduled"
    DEAD = "dead"


@dataclass(slots=True)
class Changed:
    """What became of some entries; those that are in neither had gone by themselves."""

    done: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Changed) -> None:
        self.done += other.done
        self.problems += other.problems


How = Callable[[Sequence[Entry]], Changed]


class JobSet:
    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        name: SetName,
        dead_limits: tuple[int, float] = (10_000, 15_552_000.0),
    ) -> None:
        """`dead_limits`: how many jobs the dead set holds at most, and for how many seconds."""
        self._connections = connections
        self._keys = keys
        self._key = {SetName.RETRIES: keys.retry, SetName.SCHEDULED: keys.schedule, SetName.DEAD: keys.dead}[name]
        self._dead_limits = dead_limits

    def size(self) -> int:
        return int(self._connections.call("ZCARD", self._key))

    def pages(self, newest_first: bool = False) -> Iterator[list[Entry]]:
        """All entries by their time. What comes and goes meanwhile makes none of the others be passed over."""
        reverse = "REV" if newest_first else ""
        start = 0
        while listed := self._connections.call(f"Z{reverse}RANGE", self._key, start, start + PAGE - 1, "WITHSCORES"):
            members, scores = listed[::2], listed[1::2]
            yield [Entry(raw, at=float(score)) for raw, score in zip(members, scores, strict=True)]
            # On after the last one that is still there: all before it have been seen, wherever it stands now.
            left = self._ranks(members[-1:], reverse) or self._ranks(members, reverse)
            start = max(left) + 1 if left else self._before(scores[0], newest_first, start)

    def _ranks(self, members: Sequence[bytes], reverse: str) -> list[int]:
        """Where those stand that are still there."""
        ranks = self._connections.exchange([(f"Z{reverse}RANK", self._key, member) for member in members])
        return [rank for rank in ranks if rank is not None]

    def _before(self, score: bytes, newest_first: bool, most: int) -> int:
        """How many stand before all that have that score."""
        limits = (b"(" + score, "+inf") if newest_first else ("-inf", b"(" + score)
        return min(most, int(self._connections.call("ZCOUNT", self._key, *limits)))

    def change(self, how: How, wanted: Callable[[Entry], bool], most: int) -> Iterator[tuple[int, Changed]]:
        """Page by page; yields how many entries were looked at and what became of those that were wanted.

        `most` keeps a job that fails at once and comes back from being retried for ever.
        """
        for page in self.pages():
            chosen = list(itertools.islice(filter(wanted, page), most))
            changed = how(chosen) if chosen else Changed()
            most -= changed.done  # not those that stay, which may come again among entries of one time
            yield len(page), changed
            if most <= 0:
                return

    def delete(self, entries: Sequence[Entry]) -> Changed:
        return Changed(int(self._connections.call("ZREM", self._key, *(entry.raw for entry in entries))))

    def clear(self) -> int:
        size, _ = self._connections.transaction([("ZCARD", self._key), ("UNLINK", self._key)])
        return int(size)

    def kill(self, entries: Sequence[Entry]) -> Changed:
        """To the dead set, unchanged, as Sidekiq does it; but as text where Ruby could not read them there."""
        now = time.time()
        return self._move([(entry.raw, "", burial.readable(entry.raw, entry.queue, now)) for entry in entries])

    def retry(self, entries: Sequence[Entry], timestamps: Timestamps) -> Changed:
        """To the back of their queues, to run once more."""
        moves, problems = [], []
        for entry in entries:
            try:
                moves.append((entry.raw, *self._pushed(entry, timestamps)))
            except ValueError as error:
                problems.append(str(error))
        changed = self._move(moves)
        changed.problems += problems
        return changed

    def _pushed(self, entry: Entry, timestamps: Timestamps) -> tuple[str, bytes]:
        """By Sidekiq's rules: the count is one less, so that the same number of retries is left; the error stays. Of
        an entry that keeps a job as text it is that job which goes back."""
        jid = entry.jid
        if entry.original is not None:
            entry = Entry(entry.original, at=entry.at)
        message = entry.message
        if message is None:
            raise ValueError(f"not retried: jid {jid}: no job that can be run; delete it, or leave it")
        queue = message.get("queue") or "default"
        if not isinstance(queue, str) or not payload.encodable(queue):
            raise ValueError(f"not retried: jid {jid}: its queue is no name")
        changes: dict[str, object] = {"enqueued_at": timestamps.write(time.time()), "queue": self._keys.bare(queue)}
        if message.retry_count is not None:
            changes["retry_count"] = message.retry_count - 1
        changes |= jid_where_missing(message)
        # Sidekiq would take an `at` for a job that is still to be scheduled.
        return self._keys.bare(queue), payload.splice(entry.raw, changes, drop=("at",))

    def _move(self, moves: Sequence[tuple[bytes, str, bytes]]) -> Changed:
        """Each an entry, its queue ('': to the dead set) and its payload there."""
        if not moves:
            return Changed()
        queues = dict.fromkeys(queue for _, queue, _ in moves if queue)
        numbers = {queue: number for number, queue in enumerate(queues, 1)}
        arguments: list[Argument] = [*self._dead_limits]
        for raw, queue, rewritten in moves:
            arguments += (numbers.get(queue, 0), queue, raw, rewritten)
        keys = [self._key, self._keys.queues, self._keys.dead, self._keys.nothing, *map(self._keys.queue, queues)]
        answer = self._connections.script(_MOVE, keys, arguments)
        problems = [
            f"not moved: {describe(raw, queue)}: {self._connections.explained(_MOVE, text(told))}"
            for (raw, queue, _), told in zip(moves, answer, strict=True)
            if isinstance(told, bytes)
        ]
        return Changed(sum(told for told in answer if isinstance(told, int)), problems)
