"""Verbs by which people read and change jobs, queues and processes. The room `admin` builds everything on them.

Processes publish, consume and settle while people look. So:

- a job that is changed is found again by its exact bytes, never by its position;
- a job that is moved is in one place at every instant;
- a job that has left its place before it is changed is skipped, and is no error.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

from goworkers_py.brokers.contracts.fleet import (
    Day,
    InProgressJob,
    LeaseOwner,
    LineStats,
    Process,
    QueueStats,
    Running,
    ServerFacts,
    Stats,
)
from goworkers_py.brokers.contracts.span import BEGINNING, EVERY_JOB, Reached, Span
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.command import Command
from goworkers_py.core.job_state import JobState
from goworkers_py.core.values import NamedTuple, dataclass
from goworkers_py.wire.stand_in import stand_in_for
from goworkers_py.wire.stored_job import StoredJob

# Jobs that are read in one step.
PAGE = 500
# Jobs of exactly one time that `at` returns. A campaign may schedule any number of jobs for one time.
MOST_OF_ONE_TIME = 1_000
# The audit list keeps so many of the last entries, or more.
ACTIONS_KEPT = 10_000
DELETED, MOVED = "deleted", "moved"


@dataclass(frozen=True, slots=True)
class Place:
    """All jobs of a state: with WAITING those of one queue, with the other states those of all queues."""

    state: JobState
    queue: str = ""  # only with WAITING


@dataclass(frozen=True, slots=True)
class Change:
    """Delete a job; or move it `to` the back of a queue or to the dead jobs, where its payload is `payload`; or, with
    `at`, let a job of SCHEDULED or RETRY wait for another time."""

    job: StoredJob
    to: Place | None = None  # None: delete it, unless `at` says another time
    payload: bytes = b""
    at: float | None = None
    reason: str = DELETED  # of a deletion, a few words for the timeline of a tracked job


@dataclass(slots=True)
class Changed:
    """The result of changes. A job that had left its place before is in neither field."""

    done: int = 0  # jobs that were deleted or moved
    problems: list[str] = field(default_factory=list)  # a line for each job that stayed because of an error
    jobs: list[StoredJob] = field(default_factory=list, compare=False)  # those that were deleted or moved in this step
    # Of a step: how far the change has come. The inspector sets it.
    reached: Reached = field(default=BEGINNING, compare=False)

    def add(self, other: Changed) -> None:
        """Adds up the counts and the problems. The jobs are left out, because there may be millions."""
        self.done += other.done
        self.problems += other.problems


class Glance(NamedTuple):
    """How people look at many jobs: something small stands in for a large payload, see `stand_in`."""

    longest: int = 100_000  # bytes of a payload that comes whole
    jid: str = ""  # a payload that holds this text comes whole up to
    longest_of_jid: int = 1_000_000

    def of(self, job: StoredJob) -> StoredJob:
        """The job as it comes then."""
        most = self.longest_of_jid if self.jid and self.jid.encode() in job.payload else self.longest
        if job.whole or len(job.payload) <= most:
            return job
        return replace(job, payload=stand_in_for(job.payload), whole=len(job.payload))


# Called with a page of jobs. Returns the changes of those jobs that are to be changed.
Decide = Callable[[Sequence[StoredJob]], Sequence[Change]]


class Advice(NamedTuple):
    """One finding of a check, and what to do about it. A problem sooner or later loses jobs or leaves them lying; a
    note does not."""

    problem: bool  # False: a note
    what: str
    todo: str


# Checks by their names, by which people may skip them. Calling one makes the check.
Checks = Mapping[str, Callable[[], Iterator[Advice]]]


class PlacedJobs(Protocol):
    """The jobs of one place: of a queue, or of one of the states SCHEDULED, PARKED, OUTBOX, RETRY and DEAD.

    Threads share it."""

    def count(self) -> int:
        """Returns how many jobs the place holds."""

    def first(self, limit: int, start: int = 0) -> list[StoredJob]:
        """Returns up to `limit` jobs after the `start` first ones: of a queue those that are consumed next, the next
        one first; of SCHEDULED and RETRY those that are due first; of PARKED and OUTBOX those of each line that came
        first; of DEAD those that died first. Of more than PAGE jobs, some that come or go meanwhile may be left out or
        be returned twice."""

    def before(self, time: float, newest_first: bool = False) -> int:
        """Returns how many jobs of SCHEDULED, RETRY or DEAD have an earlier time; with `newest_first`, a later one.
        Takes the same time however many jobs the place holds."""

    def at(self, time: float) -> list[StoredJob]:
        """Returns the jobs of SCHEDULED, RETRY or DEAD that have exactly this time: when there are more than
        MOST_OF_ONE_TIME, only so many of them. `pages` from `before(time)` on
        yields them all. Takes the same time however many jobs the place holds."""

    def around(self, time: float) -> Iterator[tuple[int, StoredJob]]:
        """Yields jobs of a queue, each with how many jobs are before it: the next ones, the last ones, and those that
        came into the queue about this time. A job may come twice. At most some pages, however long the queue is."""

    def take_out(self, job: StoredJob, place: int = 0, reason: str = DELETED) -> bool:
        """Deletes a job that `at` or `around` has just returned, of a queue with its place; or a parked job that
        `pages` has returned. False when it had left."""

    def pages(self, newest_first: bool = False, start: int = 0) -> Iterator[list[StoredJob]]:
        """Yields all jobs, or those after the `start` first ones, up to `PAGE` at a time: of a state by their time; of
        a queue, a line or an outbox always the newest first, whatever `newest_first` says.

        Jobs may come and go between two pages. Each job that stays is yielded all the same, and none twice. For a queue
        that holds while jobs are published and consumed, but not while other people delete jobs of it.
        """

    def change(self, decide: Decide, span: Span = EVERY_JOB) -> Iterator[tuple[int, Changed]]:
        """Calls `decide` with each page of jobs of the span, in the order of `pages`, and makes the changes that it
        returns. The last page may hold jobs behind the span, which `decide` must leave alone.

        The result is an iterator, and the work is done while the caller iterates. Each step yields how many jobs were
        looked at, and the result of their changes. Each change is one step of the broker, so a caller that stops leaves
        every job in one place. A job of a queue may be looked at twice when jobs are published meanwhile. When two
        callers change the same job, one change is made. The jobs of a page that are moved into another queue keep their
        order. Raises ArgumentError for changes that are not possible: jobs of an outbox can only be deleted, those of a
        queue only deleted or moved into another one, and dead jobs cannot be moved to the dead jobs.
        """

    def clear(self) -> int:
        """Deletes all jobs of the place, in one step, and returns how many. A queue itself is deleted too."""


class Admin(Protocol):
    """Threads share it."""

    # --- queues

    def queues(self) -> list[QueueStats]:
        """Returns the queues that a job was ever published to and those that are paused, by name."""

    def queue(self, name: str) -> QueueStats | None:
        """Returns one queue, or None when `queues` would not list it and it holds no job."""

    def pause(self, queue: str) -> bool:
        """Pauses the queue: processes consume no jobs from it until `resume`. False when it was paused already."""

    def resume(self, queue: str) -> bool:
        """Ends the pause of the queue. False when it was not paused."""

    # --- jobs

    def lines(self) -> list[LineStats]:
        """Returns the lines that hold parked jobs, by name."""

    def outboxes(self) -> list[LineStats]:
        """Returns the outboxes that hold pushes, by name."""

    def jobs_in(self, place: Place, glance: Glance | None = None) -> PlacedJobs:
        """Returns the jobs of a place, and asks the broker nothing yet. Raises ArgumentError for jobs in progress:
        `in_progress` lists them. With `glance` they can be read only."""

    # --- the fleet

    def stats(self) -> Stats:
        """Returns the counts of all jobs and processes, and every queue."""

    def history(self, days: int) -> list[Day]:
        """Returns the last days, today first: so many, also those without jobs."""

    def owners(self) -> list[LeaseOwner]:
        """Returns every identity under which jobs may be in progress, also dead ones."""

    def dead_holders(self, owners: Collection[str]) -> set[str]:
        """The ones of these owners of places and locks that are dead: declared dead, or in no registry. None on a
        broker without limits and locks."""
        return set()

    def in_progress(self, queue: str = "", identity: str = "") -> Iterator[InProgressJob]:
        """Yields the jobs in progress, by owner and queue: all, or those of one queue, or of one owner. Jobs that come
        or go meanwhile may be missed."""

    def held(self, owners: Collection[LeaseOwner], queue: str | None = None) -> int:
        """Returns how many jobs are in progress under these owners, of one queue or of all."""

    def processes(self) -> list[Process]:
        """Returns the living processes of the fleet, of whatever language. A process of pyworkers lives while it
        has a lease: the age of its report does not matter."""

    def running(self) -> list[Running]:
        """Returns the jobs that these processes report as running, the longest running first."""

    def ask(self, identities: Sequence[str], command: Command) -> None:
        """Sends a command to processes. Each obeys after its next beat; one that does not live is no error."""

    # --- the audit list

    def note_action(self, entry: str) -> None:
        """Adds an entry to the audit list, which keeps the last 10,000 or more. `entry` is JSON, see
        `wire.audit_record`."""

    def actions(self, before: str, limit: int) -> Sequence[AuditEntry]:
        """Returns the last entries of the audit list before this position, the newest first, `limit` at most; the last
        ones of all when it is empty. Leaves out what this release cannot read. Raises ArgumentError for a position that
        no entry had."""

    # --- the broker itself

    def now(self) -> float:
        """Returns the broker's clock, in epoch seconds."""

    def servers(self) -> Sequence[ServerFacts]:
        """Returns what each server that answers tells of itself: nothing where there is no server, or it tells
        nothing to this user."""
        return ()

    def damage(self) -> list[str]:
        """Returns a line for each damaged thing that all queues share: no program of the fleet wrote what it holds."""

    def damaged_queues(self) -> list[str]:
        """Returns a line for each damaged queue, likewise."""

    def checks(self, queues: Collection[str]) -> Checks:
        """Returns the checks of this kind of broker: what an operator should mend. `queues` are those that this
        configuration works."""
