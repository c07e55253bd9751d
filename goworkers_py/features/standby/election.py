"""Who leads: the words of an election, and the fence of one term of a leader.

Of the processes of an election one leads at a time. Each win begins a term, which has an epoch (a number that only
grows) and a token (a random word that no other term has).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from goworkers_py.core import machine
from goworkers_py.core.errors import Fenced
from goworkers_py.core.values import NamedTuple

MAIN = "main"  # the election of a daemon without partitions


class Leader(NamedTuple):
    """The leader of an election, as its lease tells."""

    identity: str
    epoch: int
    prefers: bool  # it has `prefer_leader`
    since: float  # epoch seconds, by the broker's clock
    left_s: float  # until its lease ends, unless it is renewed
    asked: str = ""  # who has asked it to step down
    life_s: float = math.inf  # of its lease, from each renewal on


class Standing(NamedTuple):
    """How an election stands."""

    leader: Leader | None  # None: no lease is there, and anybody may win
    epoch: int  # the highest one that was ever won; 0: none
    last: str  # the identity that won it, unless it has resigned


class Bid(NamedTuple):
    """A process bids with it to lead."""

    identity: str  # of the process in the term that it may win
    token: str
    prefers: bool
    seen: Standing  # the last look of the bidder
    epoch: int = 0  # the highest one that the bidder has ever seen: a win gets a higher one


class News(NamedTuple):
    """A message on the channel of an election. An empty one says that some may have been missed."""

    what: str = ""  # beat, farewell, step-down
    epoch: int = 0
    identity: str = ""  # of the leader
    successor: str = ""  # of a farewell: who wins next, if it still lives


class LeaderChange(NamedTuple):
    """The news for the functions of `on_lead` and `on_follow`: this process leads now, or leads no more."""

    leads: bool
    epoch: int
    partition: str  # empty: the daemon without partitions


class Fence:
    """The fence around one term. Every write of the term passes it: `check` before the write is sent, and the broker
    compares `token` in the step of the write.

    The elector's thread changes it. Any thread may call `check` and `fall`.
    """

    def __init__(self, election: str, token: str) -> None:
        self.election = election
        self.token = token
        self.epoch = 0  # set before the first `hold`
        self._until = -math.inf
        self._fallen = ""
        self.on_fall: Callable[[], None] = lambda: None

    def hold(self, until: float) -> None:
        """The term lasts until then, on the clock `awake_and_asleep`."""
        self._until = until

    def fall(self, why: str) -> None:
        """The term is over for good."""
        if not self._fallen:
            self._fallen = why
            self.on_fall()

    @property
    def fallen(self) -> str:
        """Why the term is over; empty while it is not, or when only its time has run out."""
        return self._fallen

    @property
    def left_s(self) -> float:
        """Seconds that are left of the term, unless it is renewed; 0 when it is over."""
        return 0.0 if self._fallen else max(0.0, self._until - machine.awake_and_asleep())

    @property
    def holds(self) -> bool:
        return not self._fallen and machine.awake_and_asleep() < self._until

    def check(self) -> None:
        if not self.holds:
            raise Fenced(self._fallen or f"the lease of the leader of epoch {self.epoch} was not renewed in time")


class Term(NamedTuple):
    """The term in which a job runs, or which a process leads."""

    fence: Fence
    broker: object  # behind the fence: the job's pushes go there


pushes_as_producer: ContextVar[bool] = ContextVar("pushes_as_producer", default=False)


@contextmanager
def as_producer() -> Iterator[None]:
    """Code that is no work of a leader, such as the pages of its process: its pushes are not fenced."""
    before = pushes_as_producer.set(True)
    try:
        yield
    finally:
        pushes_as_producer.reset(before)
