"""The jobs of one place: people list and change them while processes work.

Pages are made from a snapshot, so jobs that come or go cannot hide other jobs. A job gets a new number each time it is
put into a place, and a change finds the job again by that number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from goworkers_py.brokers.contracts.admin import (
    DELETED,
    MOST_OF_ONE_TIME,
    MOVED,
    PAGE,
    Change,
    Changed,
    Decide,
    Glance,
    Place,
    PlacedJobs,
)
from goworkers_py.brokers.contracts.span import EVERY_JOB, Reached, Span
from goworkers_py.brokers.memory.parts import MemoryMoved
from goworkers_py.brokers.memory.state import DeadLimits, State, Waiting
from goworkers_py.brokers.memory.timed_jobs import TimedJob
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState, StateWord
from goworkers_py.core.values import NamedTuple
from goworkers_py.policy.consequences import buried
from goworkers_py.wire.stored_job import StoredJob

_NEWEST_FIRST = {JobState.WAITING, JobState.PARKED, JobState.OUTBOX}
_WAIT_FOR_A_TIME: dict[JobState, StateWord] = {JobState.SCHEDULED: "scheduled", JobState.RETRY: "retry"}


class Stay(NamedTuple):
    at: float | None  # when the job is due, was parked, or died; None in a queue
    number: int
    payload: bytes
    queue: str = ""
    line: str = ""


class MemoryJobs(PlacedJobs):
    """The jobs of a queue, or of one of the states SCHEDULED, PARKED, OUTBOX, RETRY and DEAD."""

    def __init__(self, state: State, place: Place, dead_limits: DeadLimits, glance: Glance | None = None) -> None:
        self._glance = glance
        self._state = state
        self._place = place
        self._dead_limits = dead_limits

    def count(self) -> int:
        with self._state.lock:
            return len(list(self._stays()))

    def first(self, limit: int, start: int = 0) -> list[StoredJob]:
        with self._state.lock:
            return [self._stored(stay) for stay in islice(self._stays(), start, start + limit)]

    def before(self, time: float, newest_first: bool = False) -> int:
        self._refuse_other_than_timed()
        with self._state.lock:
            times = [stay.at for stay in self._stays() if stay.at is not None]
            return sum(at > time if newest_first else at < time for at in times)

    def at(self, time: float) -> list[StoredJob]:
        with self._state.lock:
            near = (stay for stay in self._stays() if stay.at is not None and abs(stay.at - time) < 0.01)
            return [self._stored(stay) for stay in islice(near, MOST_OF_ONE_TIME)]

    def around(self, time: float) -> Iterator[tuple[int, StoredJob]]:
        with self._state.lock:
            jobs = [self._stored(stay) for stay in self._stays()]
        yield from enumerate(jobs)

    def take_out(self, job: StoredJob, place: int = 0, reason: str = DELETED) -> bool:
        with self._state.lock:
            stays = [stay for stay in self._stays() if self._stored(stay) == job]
        return bool(stays) and self._change(stays[0], Change(job, reason=reason))

    def pages(self, newest_first: bool = False, start: int = 0) -> Iterator[list[StoredJob]]:
        for page in self._pages(newest_first, start):
            yield [self._stored(stay) for stay in page]

    def change(self, decide: Decide, span: Span = EVERY_JOB) -> Iterator[tuple[int, Changed]]:
        start = self._place_behind(span.reached) if span.next_first else span.start(self.before)
        for page in self._pages(newest_first=False, start=start, next_first=span.next_first):
            stays = defaultdict(list)  # by job: equal jobs cannot be told apart, so a change takes any of them
            for stay in page:
                stays[self._stored(stay)].append(stay)
            changes, changed = decide([self._stored(stay) for stay in page]), Changed()
            self._refuse(changes)
            for change in changes:
                if stays[change.job] and self._change(stays[change.job].pop(), change):
                    changed.done += 1
                    changed.jobs.append(change.job)
            yield len(page), changed
            if span.is_behind(self._stored(page[-1])):
                return

    def clear(self) -> int:
        with self._state.lock:
            if self._in_queue:
                return len(self._state.queues.pop(self._place.queue, ()))
            count = len(list(self._stays()))
            if self._place.state is JobState.PARKED:
                self._state.lines.clear()
            elif self._place.state is JobState.OUTBOX:
                self._state.outboxes.clear()
            else:
                self._state.timed[self._place.state].clear()
            return count

    @property
    def _in_queue(self) -> bool:
        return self._place.state is JobState.WAITING

    def _pages(self, newest_first: bool, start: int, next_first: bool = False) -> Iterator[list[Stay]]:
        with self._state.lock:
            stays = list(self._stays())
        if newest_first or (self._place.state in _NEWEST_FIRST and not next_first):
            stays.reverse()
        for place in range(start, len(stays), PAGE):
            yield stays[place : place + PAGE]

    def _place_behind(self, reached: Reached) -> int:
        """The place behind the last job of a queue that stayed in a former call, which comes nearer as jobs are taken;
        the beginning once it has left."""
        if not reached.behind:
            return reached.skip
        with self._state.lock:
            before = list(islice(self._stays(), reached.skip))
        found = (place for place, stay in reversed([*enumerate(before, 1)]) if self._stored(stay).jid == reached.behind)
        return next(found, 0)

    def _refuse(self, changes: Iterable[Change]) -> None:
        """Raises ArgumentError for a change that is not possible in this place."""
        here = self._place.state
        possible = {JobState.WAITING: [JobState.WAITING], JobState.OUTBOX: []}.get(
            here, [JobState.WAITING, JobState.DEAD]
        )
        for change in changes:
            if change.at is not None and here not in _WAIT_FOR_A_TIME:
                raise ArgumentError(f"no jobs are moved from {here.value} to another time")
            if change.to is not None and (change.to.state not in possible or change.to == self._place):
                raise ArgumentError(f"no jobs are moved from {here.value} to {change.to.state.value}")

    def _refuse_other_than_timed(self) -> None:
        if self._place.state not in (*_WAIT_FOR_A_TIME, JobState.DEAD):
            raise ArgumentError(f"jobs in {self._place.state.value} wait for no time")

    def _change(self, stay: Stay, change: Change) -> bool:
        with self._state.lock:
            if not self._remove(stay):
                return False
            job = change.job.payload
            if change.at is not None:
                self._reschedule(job, change.at)
            elif change.to is None:
                waited = self._place.state is JobState.WAITING
                self._state.moved(MemoryMoved(job, "cancelled", change.reason, may_be_dead=waited))
            elif change.to.state is JobState.DEAD:
                self._state.bury(buried(change.payload), self._dead_limits)
                self._state.moved(MemoryMoved(job, "dead", "killed", life_s=max(1, int(self._dead_limits.age_s))))
            else:
                self._state.put(change.to.queue, change.payload)
                if self._in_queue:
                    # Nothing follows for the ties of a job that waits as before. Its record may say that it is dead: a
                    # program that writes no record has put it there then.
                    self._state.tell(MemoryMoved(job, "waiting", MOVED, change.to.queue, may_be_dead=True))
                else:
                    self._state.moved(MemoryMoved(job, "waiting", "retried", change.to.queue))
            return True

    # --- under the lock

    def _reschedule(self, job: bytes, at: float) -> None:
        self._state.put_timed(self._place.state, at, job)
        self._state.moved(MemoryMoved(job, _WAIT_FOR_A_TIME[self._place.state], "rescheduled", due=at))

    def _waiting(self) -> Waiting:
        return self._state.queues.get(self._place.queue, Waiting())

    def _stays(self) -> Iterator[Stay]:
        """In the order in which jobs are consumed, are due, or died."""
        if self._in_queue:
            return (Stay(None, number, payload) for number, payload in self._waiting().items())
        if self._place.state is JobState.PARKED:
            return (
                Stay(job.at, job.number, job.payload, job.queue, line)
                for line, jobs in sorted(self._state.lines.items())
                for job in jobs.values()
            )
        if self._place.state is JobState.OUTBOX:
            return (
                Stay(job.at, job.number, job.push.payload, job.push.queue, to)
                for to, jobs in sorted(self._state.outboxes.items())
                for job in jobs.values()
            )
        return (Stay(*job) for job in self._state.timed[self._place.state])

    def _remove(self, stay: Stay) -> bool:
        """False when the job has left this place before."""
        if self._place.state is JobState.OUTBOX:
            return self._state.unpost(stay.line, stay.number)
        if stay.line:
            return self._state.unpark(stay.line, stay.number) is not None
        if stay.at is None:
            return self._waiting().pop(stay.number, None) is not None
        return self._state.timed[self._place.state].remove(TimedJob(stay.at, stay.number, stay.payload))

    def _stored(self, stay: Stay) -> StoredJob:
        job = StoredJob(stay.payload, stay.queue or self._place.queue, stay.at, stay.line)
        return job if self._glance is None else self._glance.of(job)
