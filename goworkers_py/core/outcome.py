"""How a run can end. Each outcome is one atomic step on the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """Ran to its end: remove it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Failed: remove it and put `payload` into the retry set, due at `at` (epoch seconds)."""

    at: float
    payload: bytes


@dataclass(frozen=True, slots=True)
class Dead:
    """Failed for good: remove it and put `payload` into the dead set."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Discard:
    """Failed and not wanted any more: remove it."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Not run to its end, and not its fault: back to its queue, to run next, or `last`."""

    last: bool = False


@dataclass(frozen=True, slots=True)
class Reschedule:
    """Not run, and not its fault: remove it and put `payload` into the schedule, due at `at` (epoch seconds). Counts
    neither as processed nor as failed."""

    at: float
    payload: bytes


@dataclass(frozen=True, slots=True)
class Keep:
    """Not acknowledged by a middleware: stays in progress until this process stops."""


Outcome = Done | Retry | Dead | Discard | Requeue | Reschedule | Keep

DONE = Done()
DISCARD = Discard()
REQUEUE = Requeue()
REQUEUE_LAST = Requeue(last=True)
KEEP = Keep()

FAILED = (Retry, Dead, Discard)
