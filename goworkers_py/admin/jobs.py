"""The part of the inspector that reads and changes jobs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from goworkers_py.admin import places
from goworkers_py.admin.again import Again
from goworkers_py.admin.bulk_change import BulkChange
from goworkers_py.admin.filter import Filter, Refined, Wanted
from goworkers_py.admin.job_lookup import JobLookup
from goworkers_py.admin.job_pages import JobPage, page_of, pages_in
from goworkers_py.admin.job_status import JobStatus
from goworkers_py.admin.moves import check_queues, into_queue, retry_now
from goworkers_py.admin.summary import PlaceKind, Sample, Summary, sample
from goworkers_py.admin.verbs import Verbs
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.admin import Change, Changed, Glance, Place
from goworkers_py.brokers.contracts.span import BEGINNING, Reached, Span
from goworkers_py.config.moments import Moment, moment
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.job_record import Move
from goworkers_py.wire.message import Timestamps
from goworkers_py.wire.stored_job import StoredJob

# Each step: how many jobs it looked at, and the result for the wanted ones. Only the iteration does the work.
Steps = Iterator[tuple[int, Changed]]

ALL = Filter()
# So many jobs are looked at for one page. It takes about a quarter of a second where few are wanted.
MOST_FOR_A_PAGE = 20_000
SAMPLE = 2_000
MOST_BYTES = 500_000  # of payloads in a page


class Jobs(Verbs):
    """Reads and changes jobs. A place is SCHEDULED, PARKED, OUTBOX, RETRIES, DEAD or `waiting_in("mail")`."""

    SCHEDULED, PARKED, OUTBOX = places.SCHEDULED, places.PARKED, places.OUTBOX
    RETRIES, DEAD = places.RETRIES, places.DEAD
    waiting_in = staticmethod(places.waiting_in)

    def __init__(
        self,
        broker: Callable[[], Broker],
        timestamps: Callable[[], Timestamps] = Timestamps,
        wall: Callable[[], float] = lambda: machine.time(),
        registry: Registry | None = None,
    ) -> None:
        """See `Verbs`."""
        super().__init__(broker, registry)
        self._timestamps = timestamps
        self._wall = wall

    # --- one job

    def status(self, jid: str) -> JobStatus:
        """Where a job is: `inspector.status(jid).state`. See `workers.status`."""
        return JobLookup(self._broker).status(jid)

    def timeline(self, jid: str) -> Sequence[Move]:
        """The states through which a job has come: `[(move.at, move.state) for move in inspector.timeline(jid)]`.
        Of a job that is not tracked, what its payload tells."""
        return self.status(jid).timeline

    def find(self, jid: str) -> Iterator[tuple[Place, StoredJob]]:
        """Every place that holds a job with this jid: `for place, job in inspector.find(jid): ...`.

        A tracked job is found by its record. For another one the places are searched, in the order in which a job moves
        through them, so that no moving job is missed. A job that moves during the search may be found in both places.
        """
        if (known := JobLookup(self._broker).place_of(jid)) is not None:
            yield known
            return
        named = Filter(jids=[jid])
        for place in [places.SCHEDULED, *(places.waiting_in(queue.name) for queue in self._admin.queues())]:
            yield from ((place, job) for job in self.jobs(place, named))
        for held in self._admin.in_progress():
            if named.fits(held.job):
                yield Place(JobState.IN_PROGRESS, held.queue), held.job
        for place in (places.PARKED, places.OUTBOX, places.RETRIES, places.DEAD):
            yield from ((place, job) for job in self.jobs(place, named))

    def enqueue_again(
        self,
        job: StoredJob,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        queue: str | None = None,
        at: Moment | None = None,
    ) -> str:
        """Pushes a new job like one that a place holds, with a jid of its own, and with other arguments, another queue
        or another time if given: `inspector.enqueue_again(job, args=[43])` returns the new jid.

        The first job stays where it is. Client middleware does not see the new one.
        """
        other = Again(args, kwargs, queue, None if at is None else moment(at))
        push = other.push(job, self._wall(), self._timestamps())
        self._broker.transport.publish([push])
        return StoredJob(push.payload).jid

    # --- the jobs of a place

    def count(self, place: Place) -> int:
        """Counts the jobs of a place: `inspector.count(inspector.DEAD)`."""
        return self._admin.jobs_in(place).count()

    def first(self, place: Place, limit: int, glance: Glance | None = None) -> list[StoredJob]:
        """The first jobs of a place: of a queue those that run next, of a state those that are due first or died first.
        `inspector.first(inspector.waiting_in("mail"), 10)`. `glance` is as for `page`."""
        return self._admin.jobs_in(place, glance).first(limit)

    def pages(
        self, place: Place, newest_first: bool = False, glance: Glance | None = None
    ) -> Iterator[list[StoredJob]]:
        """All jobs, some hundreds at a time: `for page in inspector.pages(inspector.RETRIES): ...`. A
        queue always comes newest first, a state by time. `glance` is as for `page`."""
        return self._admin.jobs_in(place, glance).pages(newest_first)

    def jobs(self, place: Place, wanted: Wanted = ALL) -> Iterator[StoredJob]:
        """The wanted jobs, most interesting first: due first, died last, pushed last. They are read while you iterate:
        `for job in inspector.jobs(inspector.DEAD, workers.Filter(job_class="Mail")): ...`."""
        pages = pages_in(self._admin.jobs_in(place), span_of(self._broker, place, wanted))
        return filter(wanted.fits, itertools.chain.from_iterable(pages))

    def page(
        self, place: Place, wanted: Wanted = ALL, *, after: str = "", limit: int = 50, most: int = MOST_FOR_A_PAGE,
        newest_first: bool | None = None, glance: Glance | None = None,
    ) -> JobPage:  # fmt: skip
        """Up to `limit` wanted jobs in the order of `jobs`, for programs that show a page at each request:
        `page = inspector.page(place)`, then `inspector.page(place, after=page.next)`.

        At most `most` jobs are looked at, so a page may hold fewer jobs than `limit`, even none, and not be the last.
        Jobs that come or go between two calls hide no other job while they are fewer than 500; beyond that, jobs of the
        same time, or of a queue, may be shown twice. `newest_first` turns the order of a place whose jobs have a time.
        With `glance`, a page holds few large jobs, and something small stands in for payloads that are still larger.
        """
        if limit < 1 or most < 1:
            raise ArgumentError(f"limit and most must be at least 1, are {limit} and {most}")
        span = span_of(self._broker, place, wanted, newest_first)
        bound = None if glance is None else MOST_BYTES
        return page_of(self._admin.jobs_in(place, glance), wanted, span, after, limit, most, bound)

    def summary(self, place: Place, advance: Callable[[int], object] = lambda jobs: None) -> list[PlaceKind]:
        """The jobs of a place, counted by class and error: `inspector.summary(inspector.DEAD)`.
        `advance` is called with the number of jobs in each page that was counted."""
        summary = Summary()
        for page in self.pages(place):
            summary.add(page)
            advance(len(page))
        return summary.kinds()

    def sample(self, place: Place, size: int = SAMPLE) -> Sample:
        """`summary` at once: estimated from jobs of a hundred parts of the place, chosen at random.
        `inspector.sample(inspector.RETRIES).kinds[0].job_class`."""
        return sample(self._admin.jobs_in(place, Glance()), size)

    def failures(self) -> list[PlaceKind]:
        """The jobs that wait for a retry or are dead, counted by class and error:
        `[(kind.job_class, kind.error_class, kind.count) for kind in inspector.failures()]`."""
        summary = Summary()
        for page in itertools.chain(self.pages(places.RETRIES), self.pages(places.DEAD)):
            summary.add(page)
        return summary.kinds()

    # --- changes

    def retry(self, place: Place, wanted: Wanted, dry_run: bool = False, start: Reached = BEGINNING) -> Steps:
        """Puts jobs at the back of their queues, to run now:
        `for looked_at, changed in inspector.retry(place, workers.Filter(error="Timeout")): print(changed.done)`.

        Changes at most as many jobs as the place holds now, so that a job which fails at once and comes back is not
        retried forever. Jobs that wait for a limit keep their turn in its line, and are told as problems. `start` is
        `changed.reached` of a step of another call with the same filter: the change goes on behind it.
        """
        places.refuse_queue(place)
        write, wall = self._timestamps().write, self._wall
        return change_in(self._broker, place, wanted, lambda job: retry_now(job, write(wall())), dry_run, start)

    def kill(self, place: Place, wanted: Wanted, dry_run: bool = False, start: Reached = BEGINNING) -> Steps:
        """Moves jobs to the dead jobs, as Sidekiq does: `list(inspector.kill(place, workers.Filter()))`. Their
        payloads stay as they are; in Redis, one that Ruby cannot read is enclosed. `start` is as for `retry`."""
        places.refuse_queue(place)
        if place.state is JobState.DEAD:
            raise ArgumentError("dead jobs cannot be killed again")
        return change_in(self._broker, place, wanted, lambda job: Change(job, places.DEAD, job.payload), dry_run, start)

    def delete(self, place: Place, wanted: Wanted, dry_run: bool = False, start: Reached = BEGINNING) -> Steps:
        """Deletes jobs: `list(inspector.delete(place, workers.Filter(jids=[jid])))`. `start` is as for `retry`."""
        return change_in(self._broker, place, wanted, Change, dry_run, start)

    def reschedule(
        self, place: Place, wanted: Wanted, at: Moment, dry_run: bool = False, start: Reached = BEGINNING
    ) -> Steps:
        """Lets jobs that are scheduled, or wait for a retry, wait for another time instead:
        `list(inspector.reschedule(inspector.RETRIES, workers.Filter(tag="eu"), time.time() + 3600))`."""
        if place not in (places.SCHEDULED, places.RETRIES):
            raise ArgumentError("only scheduled jobs and retries wait for a time that can be changed")
        due = moment(at)
        others = Refined(wanted, lambda job: job.at != due)
        return change_in(self._broker, place, others, lambda job: Change(job, at=due), dry_run, start)

    def move(
        self, queue: str, to: str, wanted: Wanted = ALL, dry_run: bool = False, start: Reached = BEGINNING
    ) -> Steps:
        """Moves jobs that wait in a queue to the back of another one, in their order:
        `list(inspector.move("mail", "slow-mail", workers.Filter(job_class="Newsletter")))`. Workers go on meanwhile.
        `start` is as for `retry`."""
        check_queues(queue, to)
        write, wall = self._timestamps().write, self._wall

        def how(job: StoredJob) -> Change:
            return into_queue(job, to, write(wall()))

        return change_in(self._broker, places.waiting_in(queue), wanted, how, dry_run, start, next_first=True)

    def clear(self, place: Place) -> int:
        """Deletes all jobs of a place, and a queue itself; returns how many:
        `inspector.clear(inspector.DEAD)`."""
        return self._admin.jobs_in(place).clear()


def span_of(broker: Broker, place: Place, wanted: Wanted, newest_first: bool | None = None) -> Span:
    """The span to read of a place, whose jobs are in the order of their times."""
    if newest_first is None:
        newest_first = place.state is JobState.DEAD
    if place not in places.TIMED:
        return Span(newest_first)
    due = JobLookup(broker, Glance()).due_in(place, wanted.jids[0]) if len(wanted.jids) == 1 else None
    return Span.of(wanted.since, wanted.until, newest_first) if due is None else Span(newest_first, due, due)


def change_in(
    broker: Broker, place: Place, wanted: Wanted, how: Callable[[StoredJob], Change], dry_run: bool,
    start: Reached = BEGINNING, next_first: bool = False,
) -> Steps:  # fmt: skip
    """Changes the wanted jobs of a place, see `Jobs.retry`."""
    broker.require(Capability.ADMIN)
    jobs = broker.admin.jobs_in(place)
    # A queue needs no limit: its jobs are deleted, or moved into another one, and do not come back.
    most = None if place.state is JobState.WAITING else jobs.count()
    span = span_of(broker, place, wanted, newest_first=False)
    span = dataclasses.replace(span, reached=start, next_first=next_first)
    return BulkChange(wanted, how, most, dry_run).steps(jobs, span)
