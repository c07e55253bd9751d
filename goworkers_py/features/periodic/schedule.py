"""Periodic jobs: their schedules, as a program declares them, and as a broker keeps them.

A schedule fires at its slots: the times that its rule names. Each slot fires once in the whole fleet.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from goworkers_py.core.release_order import release_order
from goworkers_py.core.values import NamedTuple, dataclass

if TYPE_CHECKING:
    from goworkers_py.core.effect import Push
    from goworkers_py.core.holder import Holder

CatchUp = Literal["none", "latest", "all"]
Overlap = Literal["allow", "skip", "queue"]
# Why a slot, or a demand of people, was settled so. "fired": its job was pushed at its slot. "asked": people have asked
# for it. "skipped": another job held the lock. "replaced": another job that waits has got its arguments. "missed": no
# process looked in time. "stopped": a client link has stopped the push.
Word = Literal["fired", "asked", "skipped", "replaced", "missed", "stopped"]


@dataclass(frozen=True, slots=True)
class Rule:
    """When a schedule fires: a cron expression in a time zone, or every so many seconds since the epoch."""

    cron: str = ""
    every: int = 0
    timezone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.cron} {self.timezone}" if self.cron else f"every {self.every} s"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A periodic job, as a program declares it. Two schedules of one source and name whose `text` differs are two
    releases of it."""

    name: str
    rule: Rule
    text: bytes  # the whole schedule as JSON, see `features.periodic.record`
    digest: str  # of `text`


class Release(NamedTuple):
    """Whose schedules they are: an application, and its release. An older release neither registers nor fires."""

    source: str
    generation: str = ""

    @property
    def order(self) -> str:
        return release_order(self.generation)


class ScheduleState(NamedTuple):
    """A schedule in the broker, as the process sees it that has registered it."""

    number: int  # of the last change: a firing must name it; 0: what the broker has cannot be used
    in_force: bool  # False: another release of this schedule fires
    since: float  # slots up to here are settled
    paused: bool = False
    asked: int = 0  # so many firings that people have asked for are open
    override: bytes = b""  # what people have changed, as JSON; see `features.periodic.record`


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration."""

    now: float  # the time of the broker's clock
    states: tuple[ScheduleState, ...] = ()
    newer: str | None = None  # the newer generation that fires instead of this one


class Firing(NamedTuple):
    """The end of one slot, or of one demand of people."""

    name: str
    number: int  # the number of the state that this firing was made from
    slot: float
    word: Word
    jid: str = ""
    push: Push | None = None
    missed_from: float | None = None  # the first slot that is given up with this one
    asked: bool = False  # settles a demand of people, not a slot
    skips: bool = False  # when another job holds the lock, the slot is given up; else nothing is changed


class Fired(enum.Enum):
    """The result of a firing. Only with DONE was anything changed."""

    DONE = "done"
    CHANGED = "changed"  # another process was first, or people have changed the schedule: look again
    EARLY = "early"  # by the broker's clock, the slot is not due


@dataclass(frozen=True, slots=True)
class FiringResult:
    fired: Fired
    word: Word | None = None  # with DONE
    holder: Holder | None = None  # with CHANGED, and without `skips`: the job that holds the lock


class HistoryEntry(NamedTuple):
    """A line of the history of a schedule."""

    word: str  # a Word, or that of a newer release
    slot: float
    at: float
    jid: str = ""  # of the job that was pushed, or of the one that held the lock
    missed_from: float | None = None


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule as people see it."""

    source: str
    name: str
    text: bytes
    generation: str = ""  # the newest one of its source
    gone: bool = False  # the newest generation has no such schedule
    since: float = 0.0
    seen_at: float = 0.0  # when a process last had it in its code
    paused: bool = False
    asked: int = 0
    override: bytes = b""
    fired: int = 0
    skipped: int = 0
    last: HistoryEntry | None = None


@dataclass(frozen=True, slots=True)
class ForeignSchedule:
    """A schedule that another program of the fleet fires."""

    program: str  # sidekiq-cron or sidekiq-scheduler
    name: str
    rule: str  # in the words of that program
    cron: str  # empty: its rule is no cron expression of ours
    every: int  # seconds; 0: its rule is no interval of whole seconds
    timezone: str  # of `cron`; empty: that of the processes which fire it, and nobody knows which one that is
    job_class: str
    queue: str  # empty: not known
    args: list[Any]
    enabled: bool
    obstacles: tuple[str, ...] = ()  # why a schedule of ours with these values would mean something else
    remarks: tuple[str, ...] = ()  # what such a schedule would lack, or do a little differently


# --- in a process

# The jid and the push of the job of one slot, whose arguments are those of an override, if there is one. None: a client
# link has stopped it.
Draft = Callable[[float, list[Any] | None], "tuple[str, Push] | None"]


@dataclass(frozen=True, slots=True)
class PeriodicJob:
    schedule: Schedule
    catch_up: CatchUp
    draft: Draft


@dataclass(frozen=True, slots=True)
class PeriodicJobs:
    """Of a process."""

    release: Release
    jobs: Sequence[PeriodicJob]
