"""Limits: how many jobs run at once, and how many begin in a time, over the whole fleet.

A limit has a *slot* for each of its keys, or one for all jobs: `Slot`. Jobs take a place in the slot, and wait in the
slot's line while it is full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from goworkers_py.core.values import NamedTuple, dataclass

_UNITS = {"second": 1.0, "minute": 60.0, "hour": 3_600.0, "day": 86_400.0}
_RATE = r"(\d+)\s*/\s*(?:(\d+)\s*)?(second|minute|hour|day|s|m|h|d)s?"
# Without half of a surrogate pair, which no key can hold.
_NAME = r"[^\s:\ud800-\udfff]{1,100}"
MOST = 1_000_000_000
# The line of a slot is named so.
LINE = "limit:"
# A line is looked at after so many seconds, if nothing was let go before; soon after its first job came, which may wait
# for an owner that died long ago.
LOOK_S, SOON_S = 10.0, 1.0
# A look that is late does not lose the places of a rate of this time.
LATE_S = 0.25
# A block of code asks again before so many seconds have passed, or has given up.
BLOCK_S = 2.0
# Jobs that are let go in one step, and entries that nobody can read before the oldest one that counts.
LET_GO_MOST, UNREADABLE_MOST = 50, 10


class Rate(NamedTuple):
    """So many jobs begin in so many seconds; after a pause, up to `burst` at once."""

    amount: int
    per_s: float
    burst: int = 1

    def __str__(self) -> str:
        if self == ANY_RATE:
            return "any"
        unit = next((unit for unit, seconds in _UNITS.items() if seconds == self.per_s), f"{self.per_s:g} seconds")
        return f"{self.amount}/{unit}"


ANY_RATE = Rate(0, 0.0)  # set by people: the rate that the code declares does not hold


def rate_of(text: str, burst: int = 1) -> Rate:
    """`100/minute`, `5/s` or `1/10 seconds`. Raises ValueError."""
    found = re.fullmatch(_RATE, text.strip().lower())
    amount = int(found[1]) if found else 0
    if found is None or not 0 < amount <= MOST or (found[2] is not None and not 0 < int(found[2]) <= MOST):
        raise ValueError(f"must be a number of jobs per time, such as 100/minute, 5/s or 1/10 seconds, is {text!r}")
    if type(burst) is not int or not 0 < burst <= MOST:
        raise ValueError(f"has a burst of {burst!r}; it must be a number of jobs from 1 on")
    unit = next(seconds for name, seconds in _UNITS.items() if name.startswith(found[3]))
    return Rate(amount, int(found[2] or 1) * unit, burst)


def is_limit_name(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(_NAME, name) is not None


class LimitSettings(NamedTuple):
    """How many jobs a limit allows."""

    name: str
    concurrent: int | None = None  # None: any number of jobs at once
    rate: Rate | None = None
    holds: bool = False  # a job that is retried or recovered keeps its place, and the line waits for it


@dataclass(frozen=True, slots=True)
class LimitSpec:
    """A limit as the code of a program declares it."""

    name: str
    concurrent: int | None = None
    rate: Rate | None = None
    by: Callable[..., Any] | None = None  # of the job's arguments: the key
    pass_retries: bool = False

    @property
    def strict(self) -> bool:
        """Whether the jobs of a key run one after the other, in the order in which they were pushed."""
        return self.concurrent == 1

    @property
    def holds(self) -> bool:
        return self.strict and not self.pass_retries

    @property
    def settings(self) -> LimitSettings:
        return LimitSettings(self.name, self.concurrent, self.rate, self.holds)


class Slot(NamedTuple):
    """A limit, or one key of it."""

    limit: str
    key: str = ""  # a digest

    @property
    def id(self) -> str:
        return f"{self.limit}:{self.key}" if self.key else self.limit

    @property
    def line(self) -> str:
        return LINE + self.id


def slot_of_line(line: str) -> Slot | None:
    """None for a line of something else than a limit."""
    if not line.startswith(LINE):
        return None
    limit, _, key = line.removeprefix(LINE).partition(":")
    return Slot(limit, key)


class SlotClaim(NamedTuple):
    """A push takes a place in the slot for its job, or puts the job into the slot's line: see `Transport.publish`."""

    slot: Slot
    jid: str

    @property
    def word(self) -> str:
        return "slot"


class SlotTie(NamedTuple):
    """A slot in a payload: where the job has a place, or waits."""

    slot: Slot
    holds: bool


@dataclass(frozen=True, slots=True)
class Begins:
    """The job may run."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The job was moved into a line."""

    line: str


@dataclass(frozen=True, slots=True)
class GivenAway:
    """The job was given to another process before."""


@dataclass(frozen=True, slots=True)
class Undeclared:
    """Nobody has declared one of the limits, or the broker has lost it."""


class SlotHolder(NamedTuple):
    """A job or a block that has a place in a slot."""

    jid: str
    owner: str  # the identity of the process that runs it; empty: the job waits for its run
    since: float
    queue: str = ""  # empty: a block; or the line of another slot, into which the job was moved with this place


class Looked(NamedTuple):
    """The result of a look at a slot."""

    let_go: int  # jobs
    waiting: int  # jobs that are still in the line


class DueSlots(NamedTuple):
    slots: Sequence[Slot]
    next_in_s: float | None  # seconds until the next one is due; None: no job waits for a limit
    now: float = 0.0  # by the clock of the broker


@dataclass(frozen=True, slots=True)
class LimitEntry:
    """A limit, as people see it. `declared` is by code and configuration, `set_*` are by people, who go first."""

    name: str
    declared: LimitSettings
    set_concurrent: int | None = None  # -1: any number of jobs at once
    set_rate: Rate | None = None

    @property
    def concurrent(self) -> int | None:
        if self.set_concurrent is None:
            return self.declared.concurrent
        return None if self.set_concurrent < 0 else self.set_concurrent

    @property
    def counts(self) -> bool:
        """Whether jobs that run have places, also while people allow any number of them."""
        return self.declared.concurrent is not None or self.set_concurrent is not None

    @property
    def rate(self) -> Rate | None:
        if self.set_rate is None:
            return self.declared.rate
        return None if self.set_rate == ANY_RATE else self.set_rate


@dataclass(frozen=True, slots=True)
class SlotEntry:
    """A slot, as people see it."""

    slot: Slot
    waiting: int
    holders: Sequence[SlotHolder] = ()
    next: bytes = b""  # the payload of the job that waits first
