"""How a run can end. Each outcome is one atomic step on the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """The run succeeded: remove the job."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The run failed: remove the job and put `payload` into the retry set, due at `at` (epoch seconds)."""

    at: float
    payload: bytes


@dataclass(frozen=True, slots=True)
class Dead:
    """The job failed for good: remove it and put `payload` into the dead set."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Discard:
    """The run failed and the job is not to be retried or buried: remove it."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """The job did not run to its end, without a failure of its own: put it back into its queue, to run next, or last if
    `last` is true."""

    last: bool = False


@dataclass(frozen=True, slots=True)
class Reschedule:
    """The job was not run, without a failure of its own: remove it and put `payload` into the schedule, due at `at`
    (epoch seconds). It counts neither as processed nor as failed."""

    at: float
    payload: bytes


@dataclass(frozen=True, slots=True)
class Keep:
    """A middleware did not acknowledge the job: it stays in progress until this process stops."""


Outcome = Done | Retry | Dead | Discard | Requeue | Reschedule | Keep

DONE = Done()
DISCARD = Discard()
REQUEUE = Requeue()
REQUEUE_LAST = Requeue(last=True)
KEEP = Keep()

FAILED = (Retry, Dead, Discard)
