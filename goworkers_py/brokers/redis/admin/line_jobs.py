"""The jobs of all lines, or of all outboxes: people list and change them while processes use them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts.admin import DELETED, PAGE, Change, Changed, Decide, Glance, PlacedJobs
from goworkers_py.brokers.contracts.span import EVERY_JOB, Span
from goworkers_py.brokers.redis.admin.list_pages import fresh_pages
from goworkers_py.brokers.redis.queues.line_entry import LineEntry
from goworkers_py.brokers.redis.queues.lines import LineMove, Lines
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.policy.consequences import buried
from goworkers_py.wire import enclosure
from goworkers_py.wire.message import describe_job
from goworkers_py.wire.stored_job import StoredJob


class LineJobs(PlacedJobs):
    def __init__(self, lines: Lines, state: JobState, glance: Glance | None = None) -> None:
        self._glance = glance
        self._lines = lines
        self._state = state

    def count(self) -> int:
        return sum(line.size for line in self._lines.all())

    def first(self, limit: int, start: int = 0) -> list[StoredJob]:
        found: list[StoredJob] = []
        for line in self._lines.all():
            if len(found) >= limit:
                break
            if start < line.size and self._glance is not None:
                pages = self._lines.glances(line.name, self._glance, -start - 1, limit - len(found))
                found += [_stored(entry, line.name, whole) for page in pages for entry, whole in page]
            elif start < line.size:
                found += [
                    _stored(entry, line.name) for entry in self._lines.oldest(line.name, limit - len(found), start)
                ]
            start = max(0, start - line.size)
        return found

    def before(self, time: float, newest_first: bool = False) -> int:
        raise ArgumentError(f"jobs in {self._state.value} wait for no time")

    def at(self, time: float) -> list[StoredJob]:
        raise ArgumentError(f"jobs in {self._state.value} wait for no time")

    def around(self, time: float) -> Iterator[tuple[int, StoredJob]]:
        raise ArgumentError(f"no queue: {self._state.value}")

    def take_out(self, job: StoredJob, place: int = 0, reason: str = DELETED) -> bool:
        if self._state is not JobState.PARKED:
            raise ArgumentError(f"no queue and no time: {self._state.value}")
        for page in self._lines.pages(job.line, PAGE):
            for entry in page:
                if _stored(entry, job.line) == job:
                    return self._lines.move(job.line, [LineMove(entry, "delete", payload=reason.encode())]) == [1]
        return False

    def pages(self, newest_first: bool = True, start: int = 0) -> Iterator[list[StoredJob]]:
        for line in self._lines.all():
            if start < line.size and (glance := self._glance) is not None:
                yield from self._glanced(line.name, glance, start)
            elif start < line.size:
                for page in self._lines.pages(line.name, PAGE, start):
                    yield [_stored(entry, line.name) for entry in page]
            start = max(0, start - line.size)

    def _glanced(self, line: str, glance: Glance, start: int) -> Iterator[list[StoredJob]]:
        def read(first: int) -> list[StoredJob]:
            page = next(self._lines.glances(line, glance, first, PAGE), [])
            return [_stored(entry, line, whole) for entry, whole in page]

        return fresh_pages(read, start)

    def change(self, decide: Decide, span: Span = EVERY_JOB) -> Iterator[tuple[int, Changed]]:
        start = span.start(self.before)
        for name, size in [(line.name, line.size) for line in self._lines.all()]:
            place = start
            while page := self._lines.from_newest(name, place, PAGE):
                entries = defaultdict(list)  # by job: equal jobs cannot be told apart, so a change takes any of them
                for entry in page:
                    entries[_stored(entry, name)].append(entry)
                changes = decide([_stored(entry, name) for entry in page])
                moves = [
                    (change.job, self._move(entries[change.job].pop(), change))
                    for change in changes
                    if entries[change.job]
                ]
                changed = _changed(moves, self._lines.move(name, [move for _, move in moves]))
                place += len(page) - changed.done
                yield len(page), changed
            start = max(0, start - size)

    def _move(self, entry: LineEntry, change: Change) -> LineMove:
        goal = None if change.to is None else change.to.state
        if goal is None and change.at is None:
            return LineMove(entry, "delete", payload=change.reason.encode())
        if self._state is JobState.PARKED and goal is JobState.DEAD:
            return LineMove(
                entry, "dead", payload=enclosure.readable(buried(change.payload), entry.queue, machine.time())
            )
        if self._state is JobState.PARKED and goal is JobState.WAITING and change.to is not None:
            return LineMove(entry, "back", change.to.queue, change.payload)
        raise ArgumentError(f"no jobs are moved from {self._state.value} to {goal.value if goal else 'another time'}")

    def clear(self) -> int:
        return self._lines.clear()


def _stored(entry: LineEntry, line: str, whole: int = 0) -> StoredJob:
    return StoredJob(entry.payload, entry.queue, entry.at, line, whole)


def _changed(moves: Sequence[tuple[StoredJob, LineMove]], answer: Sequence[int | str]) -> Changed:
    problems = [
        f"not moved: {describe_job(move.entry.payload, move.entry.queue)}: {result}"
        for (_, move), result in zip(moves, answer, strict=True)
        if isinstance(result, str)
    ]
    moved = [job for (job, _), result in zip(moves, answer, strict=True) if result == 1]
    return Changed(len(moved), problems, moved)
