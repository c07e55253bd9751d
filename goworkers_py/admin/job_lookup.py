"""Tells where one job is: from its record, compared with the place where the job should be then, or by a search."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TypeVar

from goworkers_py.admin.job_pages import pages_in
from goworkers_py.admin.job_status import PLACES, JobStatus, as_recorded, as_seen, check_jid
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.admin import MOST_OF_ONE_TIME, Admin, Glance, Place
from goworkers_py.brokers.contracts.fleet import InProgressJob
from goworkers_py.brokers.contracts.span import Span
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.job_state import ENDED, JobState, StateWord
from goworkers_py.features import FEATURES
from goworkers_py.wire.job_record import JobRecord
from goworkers_py.wire.payload import encodable
from goworkers_py.wire.stored_job import StoredJob

T = TypeVar("T")

# Jobs that are looked at in each place when a job without a record is searched.
MOST_SEARCHED = 10_000
# The reason in the timeline of a job that was cancelled while it waited.
CANCELLED = "cancelled"
BETWEEN_LOOKS_S = 1.0
# A job may move while it is looked for.
MOST_LOOKS = 3

_WAITS = ("scheduled", "retry", "waiting")  # states of a job that a cancel deletes


class JobLookup:
    def __init__(self, broker: Broker, glance: Glance | None = None) -> None:
        """With `glance` it only looks, and removes nothing."""
        self._glance = glance
        broker.require(Capability.ADMIN)
        self._admin: Admin = broker.admin
        self._own_places = [
            places for feature in FEATURES if (places := feature.whereabouts().places(broker)) is not None
        ]
        self._readers = [read for feature in FEATURES if (read := feature.whereabouts().records(broker)) is not None]

    def status(self, jid: str) -> JobStatus:
        check_jid(jid)
        record = self._record(jid)
        try:
            return self._status(jid, record)
        except BrokerRefused:
            if record is None:
                raise
            return as_recorded(record)  # the access rules do not allow to look where it is, as for a producer

    def _status(self, jid: str, record: JobRecord | None) -> JobStatus:
        for _ in range(MOST_LOOKS):
            if record is None:
                break
            if (found := self._verified(record)) is not None:
                return found
            again = self._record(jid)  # it may have moved since it was read
            if again is not None and again.moves == record.moves:
                return self._elsewhere(record)
            record = again
        found, complete = self._searched(jid)
        return found or JobStatus(jid, "unknown", False, tracked=False, absent=complete)

    def settled_status(self, jid: str) -> JobStatus:
        """Like `status`. A job that another program moves is in no place for a moment, so a job that was found in none
        is looked for twice."""
        status = self.status(jid)
        if status.absent:
            machine.Event().wait(BETWEEN_LOOKS_S)
            status = self.status(jid)
        return status

    def absent(self, jids: Collection[str]) -> set[str]:
        """Finds those of these jobs that are in no place, or are dead, in one search for all of them. Where that cannot
        look at every job, none is absent."""
        left = {jid for jid in jids if not self._is_verified(jid)}
        for jobs in self._everywhere() if left else ():
            looked_at = [*itertools.islice(jobs, MOST_SEARCHED + 1)]
            left = {jid for jid in left if not any(is_job(job, jid) for job in looked_at)}
            if not left or len(looked_at) > MOST_SEARCHED:
                return set()
        if not all(places.is_complete() for places in self._own_places):
            return set()
        return {jid for jid in left if all(places.find(jid) is None for places in self._own_places)}

    def _is_verified(self, jid: str) -> bool:
        """Whether a job is where its record says. That takes no search."""
        record = self._record(jid)
        return record is not None and record.state not in ENDED and self._verified(record) is not None

    def _everywhere(self) -> Iterator[Iterator[StoredJob]]:
        """The jobs of each place that are not dead, in the order in which a job moves, see `_searched`."""
        for _, place in self._places():
            if place.state is not JobState.DEAD:
                yield itertools.chain.from_iterable(self._admin.jobs_in(place).pages())
            if place.state is JobState.SCHEDULED:
                yield (held.job for held in self._admin.in_progress())
        yield (held.job for held in self._admin.in_progress())  # again: it may have been fetched meanwhile
        yield (running.job for running in self._admin.running())  # Sidekiq's processes hold their jobs nowhere else

    def place_of(self, jid: str) -> tuple[Place, StoredJob] | None:
        """Where a tracked job waits. None for any other job, and for one that is not where its record says."""
        record = self._record(jid)
        due = float(record.due) if record is not None and record.due else None
        seen = () if record is None else self.seen_at(as_recorded(record), due)
        return next(((place, job) for place, _, job in seen if is_job(job, jid)), None)

    def due_in(self, place: Place, jid: str) -> float | None:
        """The time of a tracked job, if it is in this place."""
        found = self.place_of(jid)
        return found[1].at if found is not None and found[0] == place else None

    def remove(self, jid: str) -> StoredJob | None:
        """Deletes a job that waits in a queue, in a line or for a time, and the copies of it: a client sends a push
        again whose reply was lost. None when it was found in none of them."""
        removed: list[StoredJob] = []
        for places in self._own_places:
            while (waiting := places.take_out(jid, CANCELLED)) is not None:
                removed.append(waiting)
        for _ in range(MOST_LOOKS):  # it may move meanwhile
            record = self._record(jid)
            if removed or record is None or record.state not in _WAITS:
                break
            removed = self._take_out(jid, as_recorded(record))
        # The record tells of one copy. Others may wait elsewhere.
        for seen in self._waiting_copies(jid):
            removed += self._take_out(jid, seen)
        return _first(iter([*removed, *self._take_out_of_lines(jid)]))

    def _take_out_of_lines(self, jid: str) -> list[StoredJob]:
        parked = Place(JobState.PARKED)
        jobs = self._admin.jobs_in(parked)
        return [job for job in [*self._look(parked, jid)] if jobs.take_out(job, 0, CANCELLED)]

    def _take_out(self, jid: str, status: JobStatus) -> list[StoredJob]:
        """Deletes all copies that are near the place where one was seen."""
        return [
            job
            for place, number, job in itertools.chain(self.seen_at(status, status.due), self._further(status))
            if is_job(job, jid) and self._admin.jobs_in(place).take_out(job, number, CANCELLED)
        ]

    def _waiting_copies(self, jid: str) -> Iterator[JobStatus]:
        """Where copies of the job wait, in the order in which a job moves."""
        for state, place in self._places():
            if state in _WAITS:
                for job in [*self._look(place, jid)]:
                    yield as_seen(job, state, place.queue or job.queue)

    def is_held(self, jid: str) -> bool:
        """Whether a process holds the job, or a copy of it, or a copy is parked."""
        parked = self._look(Place(JobState.PARKED), jid)
        return self._look_in_progress(jid) is not None or _first(parked) is not None

    def seen_at(self, status: JobStatus, due: float | None) -> Iterator[tuple[Place, int, StoredJob]]:
        """Jobs near the place where one was seen, each with its place and how many are before it: a bounded number,
        so one among a great many of the same time may be left out."""
        if status.state in PLACES and due is not None:
            place = Place(PLACES[status.state])
            yield from ((place, 0, job) for job in self._admin.jobs_in(place, self._glance).at(due))
        elif status.state == "waiting" and status.queue:
            place = Place(JobState.WAITING, status.queue)
            since = status.since or 0.0
            yield from ((place, number, job) for number, job in self._admin.jobs_in(place, self._glance).around(since))

    def _further(self, status: JobStatus) -> Iterator[tuple[Place, int, StoredJob]]:
        """All jobs of the time of this one, if `seen_at` yields only some. Reads any number of pages."""
        if status.state not in PLACES or status.due is None:
            return
        place = Place(PLACES[status.state])
        jobs = self._admin.jobs_in(place)
        if len(jobs.at(status.due)) >= MOST_OF_ONE_TIME:
            for page in pages_in(jobs, Span.of(status.due, status.due, newest_first=False)):
                yield from ((place, 0, job) for job in page)

    def _record(self, jid: str) -> JobRecord | None:
        # Half a surrogate pair can be in a jid, and not in the name of a record.
        found = (read(jid) for read in self._readers) if encodable(jid) else iter(())
        return next((record for record in found if record is not None), None)

    def _verified(self, record: JobRecord) -> JobStatus | None:
        """None when the job is not where its record says."""
        status = as_recorded(record)
        if record.state == "waiting":
            return self._waiting(record, status)
        for places in self._own_places:
            if record.state in places.states:
                return replace(status, verified=True) if places.holds(record) else None
        if record.state == "running":
            held = _first(self._held(record))
            return None if held is None or not held.owner.alive else replace(status, verified=True)
        if record.due and record.state in PLACES:
            place = self._admin.jobs_in(Place(PLACES[record.state]))
            return (
                replace(status, verified=True)
                if any(is_job(job, record.jid) for job in place.at(float(record.due)))
                else None
            )
        return replace(status, verified=record.state in ENDED)

    def _waiting(self, record: JobRecord, status: JobStatus) -> JobStatus | None:
        if not record.queue:
            return None
        for place, job in self._admin.jobs_in(Place(JobState.WAITING, record.queue)).around(record.at):
            if is_job(job, record.jid):
                return replace(status, verified=True, place=place)
        held = _first(self._held(record))  # fetched
        if held is None:
            return None
        if held.running_since is not None:  # begun, and its record could not be written
            return replace(status, state="running", verified=True, owner=held.owner.identity, since=held.running_since)
        return replace(status, verified=True, place=0, owner=held.owner.identity)

    def _held(self, record: JobRecord) -> Iterator[InProgressJob]:
        in_progress = self._admin.in_progress(record.queue, record.owner)
        return (held for held in itertools.islice(in_progress, MOST_SEARCHED) if is_job(held.job, record.jid))

    def _elsewhere(self, record: JobRecord) -> JobStatus:
        """Another program has moved it, or somebody has deleted it."""
        (found, complete), status = self._searched(record.jid), as_recorded(record)
        if found is None:
            return replace(status, absent=complete)
        return replace(
            found, tracked=True, progress=status.progress, timeline=status.timeline,
            error_class=found.error_class or status.error_class,
            error_message=found.error_message or status.error_message,
        )  # fmt: skip

    def _searched(self, jid: str) -> tuple[JobStatus | None, bool]:
        """In the order in which a job moves, so that one that moves meanwhile is not missed. The second value says
        whether every place was searched to its end."""
        complete = True
        for state, place in self._places():
            if (job := _first(self._look(place, jid))) is not None:
                return as_seen(job, state, place.queue or job.queue), True
            complete = complete and self._admin.jobs_in(place).count() <= MOST_SEARCHED
            if place.state is JobState.SCHEDULED and (held := self._look_in_progress(jid)) is not None:
                return held, True
        held = self._look_in_progress(jid)  # again: it may have been fetched meanwhile
        for places in self._own_places if held is None else ():
            if (found := places.find(jid)) is not None:
                return found, True
        complete = complete and self._is_all_in_progress_read()
        return held, complete and all(places.is_complete() for places in self._own_places)

    def _places(self) -> Iterator[tuple[StateWord, Place]]:
        yield "scheduled", Place(JobState.SCHEDULED)
        yield "retry", Place(JobState.RETRY)
        for queue in self._admin.queues():
            yield "waiting", Place(JobState.WAITING, queue.name)
        yield "waiting", Place(JobState.PARKED)
        yield "dead", Place(JobState.DEAD)

    def _is_all_in_progress_read(self) -> bool:
        return self._admin.held(self._admin.owners()) <= MOST_SEARCHED

    def _look_in_progress(self, jid: str) -> JobStatus | None:
        for held in itertools.islice(self._admin.in_progress(), MOST_SEARCHED):
            if is_job(held.job, jid):
                state: StateWord = "waiting" if held.running_since is None else "running"
                seen = as_seen(held.job, state, held.queue)
                return replace(seen, owner=held.owner.identity, since=held.running_since)
        ours = {owner.identity for owner in self._admin.owners()}
        for run in self._admin.running():  # Sidekiq's processes hold their jobs nowhere else
            if run.identity not in ours and is_job(run.job, jid):
                return replace(as_seen(run.job, "running", run.queue), owner=run.identity, since=run.since)
        return None

    def _look(self, place: Place, jid: str) -> Iterator[StoredJob]:
        jobs = itertools.chain.from_iterable(self._admin.jobs_in(place).pages())
        return (job for job in itertools.islice(jobs, MOST_SEARCHED) if is_job(job, jid))


def _first(found: Iterator[T]) -> T | None:
    return next(found, None)


def is_job(job: StoredJob, jid: str) -> bool:
    return jid.encode("utf-8", "replace") in job.payload and job.jid == jid
