"""The lock of a unique job, as a push claims it and as people see it."""

from __future__ import annotations

from typing import Literal

from goworkers_py.core.holder import Holder
from goworkers_py.core.values import NamedTuple, dataclass

Until = Literal["success", "start", "expiry"]
OnConflict = Literal["skip", "raise", "replace", "reschedule"]

# A job that could not get its lock is tried again after so long.
RESCHEDULED_S = 5


class LockClaim(NamedTuple):
    """A push takes this lock in its step. When another job holds the lock, the result is a Conflict, and `on_conflict`
    says what is done:

    skip, raise   nothing
    replace       the holder has the fields of this push and its time, see `Locks.begin`, if it was pushed with
                  `replace` too and has not begun; else nothing is done
    reschedule    the job is among the scheduled jobs, and takes the lock when it begins"""

    name: str
    jid: str  # of the job that is to hold it
    for_s: int  # how long the lock lasts from the time on at which the job is due
    on_conflict: OnConflict = "skip"
    fields: bytes = b""  # for `replace`: the fields with which the holder is to run instead, as a JSON object
    instead_of: str = ""  # the jid of a holder that is in no place any more: the claim goes before that
    outlasts: bool = False  # the lock outlasts its job

    @property
    def word(self) -> str:
        return "lock"


@dataclass(frozen=True, slots=True)
class LockEntry:
    """A lock, as people see it."""

    name: str
    holder: Holder
    expires_at: float | None  # None: it lasts as long as its job runs
    begun: bool = False  # of a lock with `replace`: its holder runs, so nothing is replaced any more
    replaced: bool = False  # the holder will run with the arguments of a later push
    owner: str = ""  # the process that runs its job; empty while the job waits


class Begin(NamedTuple):
    """How a job begins that has a lock, see `Locks.begin`."""

    name: str
    jid: str
    queue: str
    for_s: int
    take: bool = False  # it may not hold the lock yet
    read: bool = False  # the lock may have newer fields
    free: bool = False  # the lock ends as the job begins
    instead_of: str = ""
    looks: bool = False  # with `read`: it does not begin yet
    owner: str = ""  # the identity of the process that runs the job; empty: the lock keeps its time
    # The queue and the payload of the delivery. Where it has ended before this call arrives, the lock gets no owner.
    fetched: tuple[str, bytes] | None = None


class OwnedLock(NamedTuple):
    """The lock of a job that runs in this process, or has run."""

    name: str
    jid: str
    for_s: int
    owner: str  # the identity of the process, at the fetch of the job


@dataclass(frozen=True, slots=True)
class Begun:
    """The job may run."""

    fields: bytes = b""  # a JSON object: the fields with which it is to run; empty: with its own


@dataclass(frozen=True, slots=True)
class TooEarly:
    """A later push has given the job a later time."""

    due: float
