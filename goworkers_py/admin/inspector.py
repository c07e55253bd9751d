"""Reads and changes queues, jobs and processes: one facade for the command line, the HTTP pages and programs.

from goworkers_py.admin.filter import Filter
from goworkers_py.admin.inspector import DEAD

app.inspector.queues()
for looked_at, changed in app.inspector.retry(DEAD, Filter(error="Timeout")): ...
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from goworkers_py.admin.bulk_change import BulkChange
from goworkers_py.admin.filter import Filter, Wanted
from goworkers_py.admin.job_status import JobLookup, JobStatus
from goworkers_py.admin.no_neighbours import NoNeighbours
from goworkers_py.admin.retry_now import retry_now
from goworkers_py.admin.summary import Kind, Summary
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.admin import Admin, Change, Changed, Checks, Place
from goworkers_py.brokers.contracts.fleet import InProgressJob, LineStats, Owner, Process, QueueStats, Running, Stats
from goworkers_py.brokers.contracts.neighbours import Neighbours
from goworkers_py.core.command import Command
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.wire.message import Timestamps
from goworkers_py.wire.stored_job import StoredJob

SCHEDULED, PARKED = Place(JobState.SCHEDULED), Place(JobState.PARKED)
OUTBOX, RETRIES, DEAD = Place(JobState.OUTBOX), Place(JobState.RETRY), Place(JobState.DEAD)

# Each step: how many jobs it looked at, and the result for the wanted ones. Only the iteration does the work.
Steps = Iterator[tuple[int, Changed]]

_ALL = Filter()
_SECONDS = Timestamps()


def waiting_in(queue: str) -> Place:
    """The place of the jobs that wait in a queue."""
    return Place(JobState.WAITING, queue)


class Inspector:
    """Shows and changes queues, jobs and processes, for programs and for the command line: `app.inspector`.

    Every method asks the broker again, and raises BrokerError if the broker does not answer. A place is SCHEDULED,
    PARKED, OUTBOX, RETRIES, DEAD or `waiting_in("mail")`.
    """

    def __init__(
        self, broker: Broker, timestamps: Timestamps = _SECONDS, wall: Callable[[], float] = time.time
    ) -> None:
        self._broker = broker
        self._timestamps = timestamps
        self._wall = wall

    @property
    def _admin(self) -> Admin:
        self._broker.require(Capability.ADMIN)
        return self._broker.admin

    @property
    def neighbours(self) -> Neighbours:
        """Shows jobs that other programs of a Sidekiq fleet hold: `app.inspector.neighbours.leftovers()`. Shows none if
        the broker serves no other programs."""
        return self._broker.neighbours or NoNeighbours(self._broker.name)

    # --- queues

    def queues(self) -> list[QueueStats]:
        """The queues that have been pushed to, and the paused ones:
        `[queue.name for queue in app.inspector.queues() if queue.size]`."""
        return self._admin.queues()

    def queue(self, name: str) -> QueueStats | None:
        """One queue, such as `app.inspector.queue("mail")`; None if it was never pushed to and is not paused."""
        return self._admin.queue(name)

    def pause(self, queue: str) -> bool:
        """`app.inspector.pause("mail")`: until `resume`, no pyworkers process begins a job of the queue. Returns False
        if the queue was paused already."""
        return self._admin.pause(queue)

    def resume(self, queue: str) -> bool:
        """`app.inspector.resume("mail")` ends a pause. Returns False if the queue was not paused."""
        return self._admin.resume(queue)

    # --- jobs

    def lines(self) -> list[LineStats]:
        """The lines that hold parked jobs: `{line.name: line.size for line in app.inspector.lines()}`."""
        return self._admin.lines()

    def outboxes(self) -> list[LineStats]:
        """The outboxes that hold pushes for other brokers: `sum(one.size for one in app.inspector.outboxes())`."""
        return self._admin.outboxes()

    def count(self, place: Place) -> int:
        """How many jobs a place holds: `app.inspector.count(DEAD)`."""
        return self._admin.jobs_in(place).count()

    def first(self, place: Place, limit: int) -> list[StoredJob]:
        """The first jobs of a place: of a queue those that run next, of a state those that are due first or died first.
        `app.inspector.first(waiting_in("mail"), 10)`."""
        return self._admin.jobs_in(place).first(limit)

    def pages(self, place: Place, newest_first: bool = False) -> Iterator[list[StoredJob]]:
        """All jobs, a page at a time: `for page in app.inspector.pages(RETRIES): ...`. A queue always comes newest
        first, a state by time."""
        return self._admin.jobs_in(place).pages(newest_first)

    def jobs(self, place: Place, wanted: Wanted = _ALL) -> Iterator[StoredJob]:
        """The wanted jobs, most interesting first: due first, died last, pushed last. They are read while you iterate:
        `for job in app.inspector.jobs(DEAD, Filter(job_class="Mail")): ...`."""
        pages = self.pages(place, newest_first=place.state is JobState.DEAD)
        return filter(wanted.fits, itertools.chain.from_iterable(pages))

    def find(self, jid: str) -> Iterator[tuple[Place, StoredJob]]:
        """Every place that holds a job with this jid: `for place, job in app.inspector.find(jid): ...`.

        The places are searched in the order in which a job moves through them, so that no moving job is missed. A job
        that moves during the search may be found in both places.
        """
        named = Filter(jids=[jid])
        for place in [SCHEDULED, *(waiting_in(queue.name) for queue in self.queues())]:
            yield from ((place, job) for job in self.jobs(place, named))
        for held in self.in_progress():
            if named.fits(held.job):
                yield Place(JobState.IN_PROGRESS, held.queue), held.job
        for place in (PARKED, OUTBOX, RETRIES, DEAD):
            yield from ((place, job) for job in self.jobs(place, named))

    def status(self, jid: str) -> JobStatus:
        """Where a job is: `app.inspector.status(jid).state`. See `workers.status`."""
        return JobLookup(self._broker).status(jid)

    def summary(self, place: Place, advance: Callable[[int], object] = lambda jobs: None) -> list[Kind]:
        """The jobs of a place, counted by class and error: `app.inspector.summary(DEAD)`. `advance` is called with the
        number of jobs in each page that was counted."""
        summary = Summary()
        for page in self.pages(place):
            summary.add(page)
            advance(len(page))
        return summary.kinds()

    def retry(self, place: Place, wanted: Wanted, dry_run: bool = False) -> Steps:
        """Puts jobs at the back of their queues, to run again:
        `for looked_at, changed in app.inspector.retry(DEAD, Filter(error="Timeout")): print(changed.done)`.

        Changes at most as many jobs as the place holds now, so that a job which fails at once and comes back is not
        retried forever.
        """
        _refuse_queue(place)
        write, wall = self._timestamps.write, self._wall
        return self._change(place, wanted, lambda job: retry_now(job, write(wall())), dry_run)

    def kill(self, place: Place, wanted: Wanted, dry_run: bool = False) -> Steps:
        """Moves jobs to the dead jobs, as Sidekiq does: `list(app.inspector.kill(RETRIES, Filter()))`. Their payloads
        stay as they are; in Redis, one that Ruby cannot read is enclosed."""
        _refuse_queue(place)
        if place.state is JobState.DEAD:
            raise ArgumentError("dead jobs cannot be killed again")
        return self._change(place, wanted, lambda job: Change(job, DEAD, job.payload), dry_run)

    def delete(self, place: Place, wanted: Wanted, dry_run: bool = False) -> Steps:
        """Deletes jobs: `list(app.inspector.delete(waiting_in("mail"), Filter(jids=[jid])))`."""
        return self._change(place, wanted, Change, dry_run)

    def _change(self, place: Place, wanted: Wanted, how: Callable[[StoredJob], Change], dry_run: bool) -> Steps:
        # A queue needs no limit: its jobs can only be deleted, and a deleted job does not come back.
        most = None if place.state is JobState.WAITING else self.count(place)
        return BulkChange(wanted, how, most, dry_run).steps(self._admin.jobs_in(place))

    def clear(self, place: Place) -> int:
        """Deletes all jobs of a place, and a queue itself; returns how many: `app.inspector.clear(DEAD)`."""
        return self._admin.jobs_in(place).clear()

    # --- the fleet

    def stats(self) -> Stats:
        """The counters, the sizes of the states and the queues: `app.inspector.stats().retries`."""
        return self._admin.stats()

    def processes(self) -> list[Process]:
        """The live processes of the fleet, in any language: `[one.identity for one in app.inspector.processes()]`."""
        return self._admin.processes()

    def running(self) -> list[Running]:
        """The jobs that live processes report as running, oldest first: `app.inspector.running()[:10]`."""
        return self._admin.running()

    def ask(self, processes: Sequence[Process], command: Command) -> list[Process]:
        """Asks processes to quiet, to stop or to dump: `app.inspector.ask(processes, Command.QUIET)`.

        Returns the processes that were asked. A process that is a part of another program (`embedded`) is not asked:
        only that program can command it.
        """
        self._broker.require(Capability.CONTROL)
        asked = [process for process in processes if not process.embedded]
        self._admin.ask([process.identity for process in asked], command)
        return asked

    def owners(self) -> list[Owner]:
        """Every identity that may have jobs in progress, alive or dead: `app.inspector.owners()`."""
        return self._admin.owners()

    def in_progress(self) -> Iterator[InProgressJob]:
        """The jobs in progress with their owners: `for held in app.inspector.in_progress(): print(held.owner)`."""
        return self._admin.in_progress()

    def held(self, owners: Collection[Owner], queue: str | None = None) -> int:
        """How many jobs these owners have in progress, of one queue or of all:
        `app.inspector.held(app.inspector.owners(), "mail")`."""
        return self._admin.held(owners, queue)

    # --- the broker itself

    def now(self) -> float:
        """The time of the broker's clock, in epoch seconds: `app.inspector.now()`."""
        return self._admin.now()

    def damage(self) -> list[str]:
        """One line for each shared key (counters, sets) whose content no program of the fleet can have written:
        `app.inspector.damage()`."""
        return self._admin.damage()

    def damaged_queues(self) -> list[str]:
        """One line for each queue whose content no program of the fleet can have written:
        `app.inspector.damaged_queues()`."""
        return self._admin.damaged_queues()

    def checks(self, queues: Collection[str]) -> Checks:
        """The doctor's checks of this kind of broker: `app.inspector.checks(["mail"])`."""
        return self._admin.checks(queues)


def _refuse_queue(place: Place) -> None:
    if place.state is JobState.WAITING:
        raise ArgumentError("jobs that wait in a queue can only be deleted")
    if place.state is JobState.OUTBOX:
        raise ArgumentError("pushes in the outbox can only be deleted: they go to another broker")
