"""A batch of jobs, as a broker keeps it and as people see it.

The name of a batch inside of another one begins with the name of that one and a dot. So the names of all batches around
a job follow from its payload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from goworkers_py.core import machine
from goworkers_py.core.values import NamedTuple, dataclass

Way = Literal["succeeded", "failed", "cancelled", "expired", "revived"]
Event = Literal["success", "complete", "death"]
EVENTS: tuple[Event, ...] = ("success", "complete", "death")

# Batches inside of batches.
MOST_LEVELS = 10
# A batch that has ended is forgotten after so long. One to which nothing has happened after KEPT_S, and so is one with
# failed jobs, because its dead jobs may be retried by hand.
RETAIN_S = 86_400
# The newest deaths of its jobs that a batch tells.
MOST_DEATHS = 100


def new_bid(parent: str = "") -> str:
    own = machine.token_hex(8)
    return f"{parent}.{own}" if parent else own


def parent_of(bid: str) -> str:
    """Empty for a batch that is in no other one."""
    return bid.rpartition(".")[0]


def line_of(bid: str) -> list[str]:
    """The batch and those around it, from the inside outwards."""
    parts = bid.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


class Membership(NamedTuple):
    """A job is in this batch. `to` are the queues of the callbacks of the batch and of those around it: the end of the
    job may push to them."""

    bid: str
    to: tuple[str, ...] = ()


class BatchTie(NamedTuple):
    """A push is one more job of this batch in its step, if it happens. It is REFUSED when the batch, or one around it,
    has ended, was cancelled or is not there, see `features.batches.contract`."""

    bid: str

    @property
    def word(self) -> str:
        return "batch"


class Callback(NamedTuple):
    """A job that a batch pushes. Its payload is complete but for `enqueued_at`."""

    queue: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class NewBatch:
    member: Membership
    name: str
    hold: str  # the name of its first hold, see `Batches.hold`
    callbacks: Mapping[Event, Callback] = field(default_factory=dict)
    retain_s: int = RETAIN_S
    milliseconds: bool = False  # how `enqueued_at` is written


class Death(NamedTuple):
    """A job of a batch that failed for good."""

    jid: str
    job_class: str
    error: str
    at: float


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch, as people see it. A batch inside of it counts as one of its jobs."""

    bid: str
    name: str = ""
    at: float = 0.0  # when it was opened
    total: int = 0
    succeeded: int = 0
    failed: int = 0  # they are dead or discarded
    cancelled: int = 0
    expired: int = 0
    holds: int = 0  # of those who may still add jobs from outside
    ended_at: float | None = None
    stopped: bool = False  # it was cancelled
    waiting_for: Sequence[Event] = ()  # its callbacks that were not pushed
    to: Sequence[str] = ()

    @property
    def ended(self) -> int:
        """How many of its jobs have ended."""
        return self.succeeded + self.failed + self.cancelled + self.expired

    @property
    def pending(self) -> int:
        """How many of its jobs have not ended."""
        return self.total - self.ended

    @property
    def state(self) -> str:
        """One of "open", "ended", "cancelling" (some of its jobs have not ended) and "cancelled"."""
        if self.ended_at is not None:
            return "cancelled" if self.stopped else "ended"
        return "cancelling" if self.stopped else "open"

    @property
    def progress(self) -> float:
        """The share of its jobs that have ended, from 0 to 1."""
        return self.ended / self.total if self.total else float(self.ended_at is not None)


@dataclass(frozen=True)
class BatchFigures:
    """The fields of `Stats` that are of batches."""

    batches: int = 0  # that are open
    batch_pending: int = 0  # their jobs that have not ended
    oldest_batch_s: int = 0  # since the first of them was opened
    failed_batches: int = 0  # that have ended, with jobs that failed for good
