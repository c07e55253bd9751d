"""How a run can end. Each outcome is one atomic step on the server, together with its effects.

Outcomes are values: look at the type of one. Code that asks `is DONE` saves time for the usual end, and does the same
for any other `Done()`.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from goworkers_py.core.values import dataclass

if TYPE_CHECKING:
    from goworkers_py.core.effect import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class _WithEffects:
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Done(_WithEffects):
    """The run succeeded: remove the job. `result` is what the job's code returned, if a link wants to keep it."""

    result: object = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Retry(_WithEffects):
    """The run failed: remove the job and put `payload` into the retry set, due at `at` (epoch seconds)."""

    at: float
    payload: bytes


@dataclass(frozen=True, slots=True)
class Dead(_WithEffects):
    """The job failed for good: remove it and put `payload` into the dead set."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Discard(_WithEffects):
    """The run failed and the job is not to be retried or buried: remove it."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Requeue(_WithEffects):
    """The job did not run to its end, without a failure of its own: put it back into its queue, to run next, or last if
    `last` is true. With `payload`, that payload replaces the job's own."""

    payload: bytes | None = None
    last: bool = False


@dataclass(frozen=True, slots=True)
class Reschedule(_WithEffects):
    """The job was not run to its end, without a failure of its own: remove it and put `payload` into the schedule, due
    at `at` (epoch seconds). It costs no retry, and counts neither as processed nor as failed."""

    at: float
    payload: bytes


@dataclass(frozen=True, slots=True)
class Park(_WithEffects):
    """The job was not run to its end, without a failure of its own: it waits in `line` until it is released into its
    queue. With `payload`, that payload replaces the job's own. It costs no retry, and counts neither as processed nor
    as failed."""

    line: str
    payload: bytes | None = None

    def __post_init__(self) -> None:
        if not self.line:
            raise ValueError("a line must have a name")


@dataclass(frozen=True, slots=True)
class Joined(_WithEffects):
    """The job is a member of a group: it was not run, and an effect puts it into its group. It costs no retry, and
    counts neither as processed nor as failed."""

    group: str = ""  # its name


@dataclass(frozen=True, slots=True)
class Expired(_WithEffects):
    """The job was not begun by its `expires_at`: remove it. It counts neither as processed nor as failed."""


@dataclass(frozen=True, slots=True)
class Cancelled(_WithEffects):
    """The job was cancelled, before its run or during it: remove it. It counts neither as processed nor as failed."""


@dataclass(frozen=True, slots=True)
class Unacknowledged(_WithEffects):
    """A middleware did not acknowledge the job: it stays in progress until this process stops."""


@dataclass(frozen=True, slots=True)
class Lost(_WithEffects):
    """The job was given to another process, which settles it: a lost lease."""


@dataclass(frozen=True, slots=True)
class Moved(_WithEffects):
    """The job waits in a line already: the broker has settled it in the step in which it was asked for a place."""


# A broker settles a job with one of these.
SettledOutcome = Done | Retry | Dead | Discard | Requeue | Reschedule | Park | Joined | Expired | Cancelled
Outcome = SettledOutcome | Unacknowledged | Lost | Moved

DONE = Done()
DISCARD = Discard()
REQUEUE = Requeue()
REQUEUE_LAST = Requeue(last=True)
EXPIRED = Expired()
CANCELLED = Cancelled()
UNACKNOWLEDGED = Unacknowledged()
LOST = Lost()
MOVED = Moved()

FAILED = (Retry, Dead, Discard)
UNCOUNTED = (Requeue, Reschedule, Park, Joined, Expired, Cancelled)  # neither processed nor failed
NOT_SETTLED = (Unacknowledged, Lost, Moved)  # no broker gets them
