"""The daemon asks a server by these verbs, each one atomic step or a loop of them.

Every verb raises BrokerUnavailable when the server cannot serve now and BrokerRefused when it says no. After either
the caller cannot know whether the step was done; every verb may be asked again without doing it twice, but for `push`
and `fetch`. What a fetch took whose reply was lost is found with `held`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.outcome import Outcome
from goworkers_py.policy.poison import RecoveryDecision


@dataclass(frozen=True, slots=True)
class Push:
    """A payload for its queue now, or for the schedule at `at` (epoch seconds)."""

    queue: str
    payload: bytes
    at: float | None = None


Finished = tuple[Delivery, Outcome]  # one is made for every job, and a NamedTuple takes several times as long


@dataclass(frozen=True, slots=True)
class Batch:
    """Deliveries of one queue to be ended in one step. A number that is asked again is not done again."""

    settler: str
    number: int
    queue: str
    finished: Sequence[Finished]
    newest_first: bool = False  # look for them from the newest on, because most of the oldest stay where they are


# What settling one delivery came to: True, False when it was no longer ours to end, or the error that left it where
# it was.
Settled = bool | str


class WaitingSet(enum.Enum):
    """The sorted sets whose entries become jobs when they are due."""

    SCHEDULE = "schedule"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one step of promotion came to.

    `looked_at` entries were due, of which `stuck` could not be moved. The next one is due in `next_in_s` seconds
    (None: no entry waits). There may be `more` that are due.
    """

    looked_at: int
    stuck: int
    next_in_s: float | None
    more: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A job in the in-progress list of a dead owner."""

    queue: str
    owner: str
    raw: bytes
    begun: bool  # False when it can only have waited there
    alone: str  # the name of the suspect that ran alone in the owner, see `poison`; mostly empty


@dataclass(frozen=True, slots=True)
class Recovered:
    """A job that was taken from a dead owner's list, and what became of it."""

    queue: str
    owner: str
    raw: bytes
    decision: RecoveryDecision


@dataclass(frozen=True, slots=True)
class Presence:
    """What an owner tells of itself with each beat."""

    owner: str
    queues: Mapping[str, int]  # with how many jobs of each it can have begun
    process: str = ""  # a fixed name that it claims
    alone: str = ""  # the name of the suspect that it runs alone now
    trouble: str = ""  # why it fetches no jobs now


@dataclass(frozen=True, slots=True)
class Beat:
    """The server's answer to a beat."""

    server_time: float
    kept: bool  # the lease was there as the last beat had left it: the server has lost no writes since
    proof: str  # what the lease holds from this beat on to the next


@dataclass(frozen=True, slots=True)
class WorkerEntry:
    """What a live process told of itself with its last beat. One of 0.1.0 tells neither version nor features."""

    identity: str
    queues: Collection[str]
    version: str = ""
    speaks: Collection[str] = ()

    def __str__(self) -> str:
        return f"{self.identity} (version {self.version})" if self.version else f"{self.identity} (before 0.2.0)"


class DeclaredDead(Exception):
    """This process was not heard of for so long that others were given its jobs."""


Judge = Callable[[Found], RecoveryDecision]

# Given a due entry and the time, its queue (None: the dead set) and its payload there.
Forward = Callable[[bytes, float], tuple[str | None, bytes]]


class Broker(Protocol):
    def push(self, pushes: Sequence[Push]) -> None: ...

    def fetch(self, owner: str, queue: str, most: int, wait: bool = True) -> list[bytes]:
        """Up to `most` payloads, oldest first, moved into the owner's in-progress list; may wait a while for the
        first."""

    def paused(self) -> set[str]:
        """The queues that nobody is to fetch from just now."""

    def wake(self, queue: str) -> None:
        """Ends a `fetch` that waits."""

    def held(self, owner: str, queue: str) -> list[bytes]:
        """What the owner's in-progress list holds, newest first."""

    def count_held(self, owner: str, queue: str) -> int:
        """How many jobs the owner's in-progress list holds."""

    def settle(self, batch: Batch) -> list[Settled]:
        """Ends deliveries, each in its outcome."""

    def promote(self, waiting: WaitingSet, forward: Forward, most: int, skip: int = 0) -> Promoted:
        """Moves up to `most` due entries into their queues, by the server's clock, passing over the first `skip`."""

    def beat(self, presence: Presence) -> Beat:
        """Registers the owner of in-progress lists, or renews its lease.

        Raises DeclaredDead when its jobs were given to others, BrokerRefused when a live process has the name.
        """

    def workers(self) -> list[WorkerEntry]:
        """What every live owner told of itself with its last beat."""

    def recover(self, owner: str, judge: Judge, proof: str | None) -> Iterator[Recovered]:
        """Takes the jobs of dead owners to where `judge` says, mostly back into their queues: of owners that ended on
        this machine and, with a `proof`, of those whose lease has run out. The proof is that of the last beat of
        `owner`. Where the lease of `owner` holds another one, the server may have lost writes, and nobody is declared
        dead by a lease. An empty proof is not compared: it is for an owner that has no lease.

        The work is done while the result is iterated: each job is told when it has been moved, so that an outage in the
        midst of a recovery hides none."""

    def leave(self, owner: str, silent: bool = True) -> Iterator[Recovered]:
        """Farewell: what is left in the owner's lists goes back to its queues, while the result is iterated. `silent`:
        no other thread of this process speaks with the server any more; otherwise the owner is remembered, for
        something may come late."""

    def close(self) -> None: ...
