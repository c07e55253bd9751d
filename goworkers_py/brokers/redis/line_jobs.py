"""The jobs of all lines, or of all outboxes: people list and change them while processes use them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts.admin import PAGE, Change, Changed, Decide, PlacedJobs
from goworkers_py.brokers.redis.line_entry import LineEntry
from goworkers_py.brokers.redis.lines import Lines, Move
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import describe_job
from goworkers_py.wire.stored_job import StoredJob


class LineJobs(PlacedJobs):
    def __init__(self, lines: Lines, state: JobState) -> None:
        self._lines = lines
        self._state = state

    def count(self) -> int:
        return sum(line.size for line in self._lines.all())

    def first(self, limit: int) -> list[StoredJob]:
        found: list[StoredJob] = []
        for line in self._lines.names():
            found += [_stored(one, line) for one in self._lines.oldest(line, limit - len(found))]
        return found

    def at(self, time: float) -> list[StoredJob]:
        raise ArgumentError(f"jobs in {self._state.value} wait for no time")

    def around(self, time: float) -> Iterator[tuple[int, StoredJob]]:
        raise ArgumentError(f"no queue: {self._state.value}")

    def take_out(self, job: StoredJob, place: int = 0) -> bool:
        raise ArgumentError(f"no queue and no time: {self._state.value}")

    def pages(self, newest_first: bool = True) -> Iterator[list[StoredJob]]:
        for line in self._lines.names():
            for page in self._lines.pages(line, PAGE):
                yield [_stored(one, line) for one in page]

    def change(self, decide: Decide) -> Iterator[tuple[int, Changed]]:
        for line in self._lines.names():
            start = 0
            while page := self._lines.from_newest(line, start, PAGE):
                entries = defaultdict(list)  # by job: equal jobs cannot be told apart, so a change takes any of them
                for one in page:
                    entries[_stored(one, line)].append(one)
                changes = decide([_stored(one, line) for one in page])
                moves = [self._move(entries[change.job].pop(), change) for change in changes if entries[change.job]]
                changed = _changed(moves, self._lines.move(line, moves))
                start += len(page) - changed.done
                yield len(page), changed

    def _move(self, one: LineEntry, change: Change) -> Move:
        goal = None if change.to is None else change.to.state
        if goal is None:
            return Move(one, "delete")
        if self._state is JobState.PARKED and goal is JobState.DEAD:
            return Move(one, "dead", payload=enclosure.readable(change.payload, one.queue, time.time()))
        if self._state is JobState.PARKED and goal is JobState.WAITING and change.to is not None:
            return Move(one, "back", change.to.queue, change.payload)
        raise ArgumentError(f"no jobs are moved from {self._state.value} to {goal.value}")

    def clear(self) -> int:
        return self._lines.clear()


def _stored(one: LineEntry, line: str) -> StoredJob:
    return StoredJob(one.payload, one.queue, one.at, line)


def _changed(moves: Sequence[Move], answer: Sequence[int | str]) -> Changed:
    problems = [
        f"not moved: {describe_job(move.entry.payload, move.entry.queue)}: {told}"
        for move, told in zip(moves, answer, strict=True)
        if isinstance(told, str)
    ]
    return Changed(sum(told for told in answer if isinstance(told, int)), problems)
