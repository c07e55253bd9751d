"""Reads and changes batches, for programs and for the command line: `workers.inspector.batches`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from goworkers_py.brokers.broker import Broker
from goworkers_py.features.batches.batch import BatchStatus, Death, NewBatch
from goworkers_py.features.batches.contract import Batches


class BatchList:
    """`workers.batches` shows batches and changes them. Every method asks the broker again."""

    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker

    @property
    def _batches(self) -> Batches:
        return self._broker().require_part(Batches)

    def status(self, bid: str) -> BatchStatus | None:
        """`workers.batches.status(bid).progress`; None if there is no such batch, or not any more."""
        return self._batches.status(bid)

    def deaths(self, bid: str) -> list[Death]:
        """The newest jobs of the batch that failed for good, at most 100:
        `[death.jid for death in workers.batches.deaths(bid)]`."""
        return self._batches.deaths(bid)

    def all(self) -> Iterator[BatchStatus]:
        """The batches, the last changed first. Batches that have ended without failed jobs come last:
        `[one.name for one in workers.batches.all()]`."""
        return self._batches.entries()

    def cancel(self, bid: str) -> bool:
        """`workers.batches.cancel(bid)`: jobs of the batch that wait do not run, and those that run are interrupted.
        Its callbacks are not pushed. Returns False if it has ended or is not there."""
        return self._batches.cancel(bid, self._queues(bid))

    def close(self, bid: str, *, force: bool = False) -> bool:
        """`workers.batches.close(bid)`: nobody keeps the batch open any more, so it ends with its last job. With
        `force` it ends now, also when jobs of it were deleted by another program. Returns False if it has ended or is
        not there."""
        return self._batches.close(bid, self._queues(bid), force)

    def idle(self, count: int) -> list[BatchStatus]:
        """For the figures of the fleet: see `Batches.idle`."""
        return self._batches.idle(count)

    def begin(self, new: NewBatch) -> bool:
        """For `workers.batch`: see `Batches.open`."""
        return self._batches.open(new)

    def hold(self, bid: str, hold: str) -> bool:
        """For `open`: see `Batches.hold`."""
        return self._batches.hold(bid, hold)

    def let_go(self, bid: str, hold: str, to: Sequence[str], late: bool) -> None:
        """At the end of a block: see `Batches.let_go`."""
        self._batches.let_go(bid, hold, to, late)

    def _queues(self, bid: str) -> list[str]:
        status = self._batches.status(bid)
        return [] if status is None else [*status.to]
