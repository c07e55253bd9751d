"""A job that holds what another job asks for, and how a push meets it."""

from __future__ import annotations

from typing import Literal

from goworkers_py.core.values import dataclass

How = Literal["held", "replaced", "rescheduled"]


@dataclass(frozen=True, slots=True)
class Holder:
    """The job that holds a lock, and where it was when it got the lock or was scheduled last."""

    jid: str
    queue: str = ""
    at: float = 0.0  # when it was pushed
    due: float | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """The result of a push whose lock another job holds.

    held: nothing was pushed. replaced: the holder runs with the fields of this push. rescheduled: the job was pushed
    among the scheduled jobs, and takes the lock when it begins."""

    holder: Holder
    how: How = "held"


def holder_of(jid: str, queue: str, at: str, due: str) -> Holder:
    """The holder as Redis has it, in texts."""
    return Holder(jid, queue, float(at or 0), float(due) if due else None)
