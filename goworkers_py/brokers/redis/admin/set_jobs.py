"""The jobs of the sets `schedule`, `retry` and `dead`: people list and change them while processes use the sets.

A job is found again by its exact bytes, and a job that is moved is in one place at every instant.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts.admin import (
    DELETED,
    MOST_OF_ONE_TIME,
    PAGE,
    Change,
    Changed,
    Decide,
    Glance,
    PlacedJobs,
)
from goworkers_py.brokers.contracts.span import EVERY_JOB, Span
from goworkers_py.brokers.redis.admin.glances import Order, glances
from goworkers_py.brokers.redis.admin.list_pages import ranges
from goworkers_py.brokers.redis.admin.moved_jobs import MovedJobs
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Argument, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState, StateWord
from goworkers_py.core.values import NamedTuple
from goworkers_py.features.parts import FollowMove
from goworkers_py.policy.consequences import buried
from goworkers_py.wire import enclosure, payload
from goworkers_py.wire.message import describe_job
from goworkers_py.wire.stored_job import StoredJob

_MOVE = Script(LUA / "move.lua")
# The moves of an entry that move.lua knows; for ENQUEUE it gets the number of the queue.
ENQUEUE, BURY, DELETE, LATER = 1, 0, -1, -2
# For the timeline of the job. A deletion has its own.
_REASONS = {ENQUEUE: "retried", BURY: "killed", LATER: "rescheduled"}


class _Step(NamedTuple):
    entry: bytes
    what: int
    name: str = ""  # ENQUEUE: the queue; DELETE: the reason
    payload: bytes = b""  # in its new place; LATER: the time


class SetJobs(PlacedJobs):
    def __init__(
        self,
        connections: Connections,
        keys: Keys,
        state: JobState,
        dead_limits: tuple[int, float],
        follow: Sequence[FollowMove] = (),
        glance: Glance | None = None,
    ) -> None:
        """`dead_limits`: how many jobs the dead set keeps at most, and for how many seconds."""
        self._connections = connections
        self._keys = keys
        self._state = state
        self._key = {JobState.SCHEDULED: keys.schedule, JobState.RETRY: keys.retry, JobState.DEAD: keys.dead}[state]
        self._dead_limits = dead_limits
        self._glance = glance
        self._follow = () if state is JobState.DEAD else follow  # a dead job has ended before

    def count(self) -> int:
        return int(self._connections.call("ZCARD", self._key))

    def first(self, limit: int, start: int = 0) -> list[StoredJob]:
        if self._glance is not None:
            return list(itertools.chain.from_iterable(self._glances(self._glance, False, start, limit)))
        pieces = ranges(start, limit, self.count)
        listed = self._connections.exchange([("ZRANGE", self._key, *piece, "WITHSCORES") for piece in pieces])
        return [job for piece in listed for job in _stored(piece)]

    def before(self, time: float, newest_first: bool = False) -> int:
        limits = (f"({time!r}", "+inf") if newest_first else ("-inf", f"({time!r}")
        return int(self._connections.call("ZCOUNT", self._key, *limits))

    def at(self, time: float) -> list[StoredJob]:
        if self._glance is not None:
            pages = self._glances(self._glance, False, self.before(time), MOST_OF_ONE_TIME)
            return list(itertools.takewhile(lambda job: job.at == time, itertools.chain.from_iterable(pages)))
        asked = ("ZRANGE", self._key, time, time, "BYSCORE", "LIMIT", 0, MOST_OF_ONE_TIME)
        return [StoredJob(member, at=time) for member in self._connections.call(*asked)]

    def around(self, time: float) -> Iterator[tuple[int, StoredJob]]:
        raise ArgumentError(f"no queue: {self._state.value}")

    def take_out(self, job: StoredJob, place: int = 0, reason: str = DELETED) -> bool:
        return self._move([_Step(job.payload, DELETE, reason)])[0].done == 1

    def pages(self, newest_first: bool = False, start: int = 0) -> Iterator[list[StoredJob]]:
        """All entries by their time. Entries that come or go meanwhile hide no other entry."""
        reverse = "REV" if newest_first else ""
        while page := self._page(newest_first, start):
            yield page
            # The next page begins after the last entry of this page that is still in its place, at its present rank:
            # all entries before it have been seen. If all have left, what comes before the time of the first was seen,
            # or came meanwhile.
            known = [number for number, job in enumerate(page) if not job.whole]
            if not known:
                start += len(page)  # without their bytes, they cannot be looked up
                continue
            left = self._ranks([page[known[-1]]], reverse) or self._ranks([page[at] for at in known], reverse)
            behind = len(page) - known[-1] - 1  # large ones
            start = max(left) + 1 + behind if left else self.before(page[0].at or 0.0, newest_first)

    def _page(self, newest_first: bool, start: int) -> list[StoredJob]:
        if self._glance is not None:
            return next(self._glances(self._glance, newest_first, start, PAGE), [])
        command = "ZREVRANGE" if newest_first else "ZRANGE"
        return _stored(self._connections.call(command, self._key, start, start + PAGE - 1, "WITHSCORES"))

    def _glances(self, glance: Glance, newest_first: bool, start: int, count: int) -> Iterator[list[StoredJob]]:
        order: Order = "falling" if newest_first else "rising"
        for page in glances(self._connections, glance, order, self._key, start, count):
            yield [StoredJob(entry.raw, at=entry.at, whole=entry.whole) for entry in page]

    def _ranks(self, page: Sequence[StoredJob], reverse: str) -> list[int]:
        """The ranks of those entries that are still in the set, and have the time that they had."""
        members = [job.payload for job in page]
        times, *ranks = self._connections.exchange(
            [("ZMSCORE", self._key, *members), *((f"Z{reverse}RANK", self._key, member) for member in members)]
        )
        looked_up = zip(page, times, ranks, strict=True)
        return [rank for job, time, rank in looked_up if None not in (time, rank) and float(time) == job.at]

    def change(self, decide: Decide, span: Span = EVERY_JOB) -> Iterator[tuple[int, Changed]]:
        for page in self.pages(start=span.start(self.before)):
            changes = decide(page)
            changed, moved = self._move([self._step(change) for change in changes])
            changed.jobs = [change.job for change in itertools.compress(changes, moved)]
            yield len(page), changed
            if span.is_behind(page[-1]):
                return

    def clear(self) -> int:
        size, _ = self._connections.transaction([("ZCARD", self._key), ("UNLINK", self._key)])
        return int(size)

    def _step(self, change: Change) -> _Step:
        """In the dead set, a payload that Ruby cannot read is enclosed as text."""
        entry, to = change.job.payload, change.to
        if change.at is not None and self._state is not JobState.DEAD:
            return _Step(entry, LATER, payload=repr(change.at).encode())
        if to is None and change.at is None:
            return _Step(entry, DELETE, change.reason)
        if to is None or to.state is self._state or to.state not in (JobState.DEAD, JobState.WAITING):
            goal = "another time" if to is None else to.state.value
            raise ArgumentError(f"no jobs are moved from {self._state.value} to {goal}")
        if to.state is JobState.DEAD:
            written = enclosure.readable(buried(change.payload), change.job.queue, machine.time())
            return _Step(entry, BURY, payload=written)
        queue = self._keys.bare(to.queue)
        written = change.payload if queue == to.queue else payload.splice(change.payload, {"queue": queue})
        return _Step(entry, ENQUEUE, queue, written)

    def _goal(self, step: _Step) -> tuple[StateWord, float | None]:
        """The state in which the job is after this step, and when it is due."""
        if step.what == LATER:
            return ("scheduled" if self._state is JobState.SCHEDULED else "retry"), float(step.payload)
        states: dict[int, StateWord] = {ENQUEUE: "waiting", BURY: "dead"}
        return states.get(step.what, "cancelled"), None

    def _move(self, steps: Sequence[_Step]) -> tuple[Changed, list[bool]]:
        """Also says for each step whether it was done."""
        if not steps:
            return Changed(), []
        queues = dict.fromkeys(step.name for step in steps if step.what == ENQUEUE)
        numbers = {queue: number for number, queue in enumerate(queues, 1)}
        jobs = MovedJobs(self._keys, self._dead_limits[1], self._follow)
        entries: list[Argument] = []
        for step in steps:
            number = numbers[step.name] if step.what == ENQUEUE else step.what
            entries += (number, step.name, step.entry, step.payload)
            reason = _REASONS.get(step.what, step.name)
            state, due = self._goal(step)
            entries += jobs.effects(step.entry, state, reason, step.name, due)
        fixed = (self._key, self._keys.queues, self._keys.dead, self._keys.nothing)
        keys = [*fixed, *map(self._keys.queue, queues), *jobs.names]
        shared = (*self._dead_limits, len(queues))
        answer = self._connections.script(_MOVE, keys, [*shared, *entries])
        problems = [
            f"not moved: {describe_job(step.entry, step.name)}: {self._connections.explained(_MOVE, text(result))}"
            for step, result in zip(steps, answer, strict=True)
            if isinstance(result, bytes)
        ]
        moved = [result == 1 for result in answer]
        return Changed(sum(moved), problems), moved


def _stored(listed: Sequence[bytes]) -> list[StoredJob]:
    return [StoredJob(member, at=float(score)) for member, score in zip(listed[::2], listed[1::2], strict=True)]
