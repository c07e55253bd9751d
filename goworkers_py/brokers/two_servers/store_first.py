"""Settles deliveries whose queues are on one server, while jobs that wait, counts and effects are on another.

No step can cover both servers. So the store is written first, and the delivery is acknowledged then. A process that is
killed between the two leaves the job in progress, and it is delivered again: it runs twice. Nothing is lost, and the
effects of its end happen once, because the store knows their ids. Jobs that a job has pushed in its own step go into
the queues of the store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from goworkers_py.brokers.contracts.store import Store
from goworkers_py.brokers.contracts.transport import Batch, Finished, Settled, Transport
from goworkers_py.brokers.parts import PIECES, Part
from goworkers_py.core.outcome import DONE, Keep, Requeue


class StoreFirst:
    """The verb `settle` of a Transport on two servers."""

    def __init__(self, queues: Transport, store: Store) -> None:
        self._queues = queues
        self._store = store
        self._parts = dict[str, Part]()  # by settler; each use is one step

    def settle(self, batch: Batch) -> Sequence[Settled]:
        """When it raises, the caller asks for the same batch again, as for any transport."""
        if any(isinstance(outcome, Keep) for _, outcome in batch.finished):
            raise ValueError("a delivery that is kept is not settled")
        part = self._parts.setdefault(batch.settler, Part(self._store.apply))
        results = part.settle(dataclasses.replace(batch, number=batch.number * PIECES))
        ended = [_acknowledgement(one) for one in batch.finished if results[one[0]] is True]
        try:
            acknowledged = self._queues.settle(dataclasses.replace(batch, finished=ended))
        except BaseException:
            part.keep(results)
            raise
        results.update(zip((delivery for delivery, _ in ended), acknowledged, strict=True))
        return [results[one] for one, _ in batch.finished]


def _acknowledgement(finished: Finished) -> Finished:
    delivery, outcome = finished
    return delivery, Requeue(outcome.payload, outcome.last) if isinstance(outcome, Requeue) else DONE
