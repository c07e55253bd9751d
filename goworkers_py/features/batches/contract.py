"""Batches: jobs whose ends are counted together. The last end pushes the callbacks of the batch, in its own step.

A push joins a batch in its step, see `BatchTie`, and the end of its job is counted in the step of the end, see
`EndInBatch`. So a batch holds numbers only, whatever its size. A job that is retried, requeued or recovered is not
counted. A job that failed for good counts as failed. When it is retried by hand and succeeds, it is counted as revived:
one less has failed, and one more has succeeded.

A batch is open until all its jobs have ended and nobody holds it. Then it has ended: it takes no more jobs. In that
same step

complete    is pushed, unless the batch was cancelled
success     is pushed, if all jobs have succeeded. It is pushed later if the last failed job is revived after the end
death       is pushed in the step in which the first job has failed

each of them once at most, and only if the batch has such a callback. Then the batch counts as one ended job of its
parent: succeeded, failed, or cancelled if none of its jobs has failed.

Every verb here raises BrokerUnavailable when the broker cannot serve now, and BrokerRefused when the broker says no.
Every verb may be called again after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from goworkers_py.features.batches.batch import BatchStatus, Death, NewBatch


class Batches(Protocol):
    """Threads share it."""

    def open(self, new: NewBatch) -> bool:
        """Makes a batch, which its opener holds. A batch with a parent is one more job of the parent from now on. False
        when a batch around it takes no jobs. Called again, it changes nothing."""

    def hold(self, bid: str, hold: str) -> bool:
        """Keeps the batch open until `let_go` is called with the same name of a hold. False when it takes no jobs."""

    def let_go(self, bid: str, hold: str, to: Sequence[str] = (), late: bool = False) -> None:
        """Ends a hold. `late`: a copy of `hold` may arrive after this call, and is then to hold nothing. `to` are the
        queues of the callbacks of the batch and of those around it, as far as they are known: a callback for another
        queue waits among the scheduled jobs, and is due at once."""

    def cancel(self, bid: str, to: Sequence[str] = ()) -> bool:
        """From now on the batch takes no jobs, those of its jobs that have not ended are not begun, and those that run
        are interrupted: it leaves a tombstone under the name of the batch, see `Cancels`, which goes at its end. Its
        callbacks are not pushed any more. False when it has ended or is not there."""

    def close(self, bid: str, to: Sequence[str] = (), force: bool = False) -> bool:
        """Ends all holds. With `force` the batch ends now, though some of its jobs have not ended: they are counted no
        more. False when it has ended or is not there."""

    def status(self, bid: str) -> BatchStatus | None:
        """Returns a batch; None when there is none, or not any more."""

    def deaths(self, bid: str) -> list[Death]:
        """Returns the newest deaths of its jobs, the newest first."""

    def entries(self) -> Iterator[BatchStatus]:
        """Yields the batches in the order in which they will be forgotten, the last one first: the open and the failed
        ones, the last changed first, and then the others."""

    def idle(self, count: int) -> list[BatchStatus]:
        """For figures: returns so many batches, first the open and the failed ones. If there are more of these, a
        broker that can tell returns those to which nothing has happened for the longest time."""
        return [*islice(self.entries(), count)]
