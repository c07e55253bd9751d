"""The locks of unique jobs. A push takes a lock, see `LockClaim`; the end of its job frees it, see `FreeLock`.

A lock belongs to a job, by its jid, wherever the job is: it lasts through retries and goes on with the job when the
process dies. While the job waits, the lock ends with its time too, so that a job which another program has deleted does
not hold it for ever. While the job runs, the lock names its owner, and ends only when that
owner's run ends or is recovered.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from goworkers_py.core.holder import Holder
from goworkers_py.features.unique.lock import Begin, Begun, LockEntry, OwnedLock, TooEarly


class Locks(Protocol):
    """Threads share it."""

    def begin(self, begin: Begin) -> Begun | TooEarly | Holder:
        """Called before a run of a job whose `JobLock.asks` is true. In one step, with

        take    the job takes the lock, if it is free or that of `instead_of`. A Holder is the answer when another job
                holds it
        read    the answer has the newest fields that a push has left for this job, and from now on no push replaces
                them: called again, it answers the same. TooEarly when a push has left a later time
        free    the lock ends, if this job holds it
        looks   the job does not begin yet: with `read`, later pushes go on to replace the fields
        owner   what `own` does

        Without `take`, a job that does not hold the lock may run all the same."""

    def own(self, locks: Sequence[OwnedLock]) -> list[str | None]:
        """The locks name the owners that run their jobs now, and have no end of their own until a settlement or a
        recovery gives them one. Not so of an owner that was declared dead. Nor of a lock that names another owner, who
        lives, or has more time than its own, which was kept for a later run: the run of which this owner knows may have
        ended just now. Returns for each lock the jid of another job that holds it, or an empty text; None where the
        server of that lock is away."""

    def disown(self, locks: Sequence[OwnedLock]) -> None:
        """The jobs of these locks do not run any more: those that still name the owner get their time back."""

    def entries(self, prefix: str = "") -> Iterator[LockEntry]:
        """Yields the locks whose names begin with `prefix`, in no order. A lock that is taken or freed meanwhile may be
        missed."""

    def entry(self, name: str) -> LockEntry | None:
        """Returns a lock; None when it is free."""

    def free(self, name: str) -> bool:
        """Ends a lock, whoever holds it. False when it was free."""
