"""Settles deliveries whose queues are on one server, while jobs that wait, counts and effects are on another.

No step can cover both servers. So the store is written first, and the delivery is acknowledged then. A process that is
killed between the two leaves the job in progress, and it is delivered again: it runs twice. Nothing is lost, and the
effects of its end happen once, because the store knows their ids. Jobs that a job has pushed in its own step go into
the queues of the store.

An end that is written and cannot be acknowledged, because the connection was lost or the server has taken the delivery
back, is remembered by the message: when the message comes again, it is acknowledged and not run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Sequence

from goworkers_py.brokers.contracts.store import Store
from goworkers_py.brokers.contracts.transport import Finished, Settled, SettlementBatch, Transport
from goworkers_py.brokers.parts import PIECES, SettlementPart
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.outcome import DONE, Keep, Requeue

log = logging.getLogger(__name__)


class StoreFirst:
    """The verb `settle` of a Transport on two servers."""

    def __init__(self, queues: Transport, store: Store) -> None:
        self._queues = queues
        self._store = store
        self._parts = dict[str, SettlementPart]()  # by settler; each use is one step

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        """When it raises, the caller asks for the same batch again, as for any transport."""
        if any(isinstance(outcome, Keep) for _, outcome in batch.finished):
            raise ValueError("a delivery that is kept is not settled")
        part = self._parts.setdefault(batch.settler, SettlementPart(self._store.apply))
        results = part.settle(dataclasses.replace(batch, number=batch.number * PIECES))
        ended = [_acknowledgement(pair) for pair in batch.finished if results[pair[0]] is True]
        try:
            acknowledged = self._queues.settle(dataclasses.replace(batch, finished=ended))
            if False in acknowledged:
                self._note_ends(ended, acknowledged)
        except BaseException:
            part.keep(results)
            raise
        results.update(zip((delivery for delivery, _ in ended), acknowledged, strict=True))
        return [results[delivery] for delivery, _ in batch.finished]

    def _note_ends(self, ended: Sequence[Finished], acknowledged: Sequence[Settled]) -> None:
        """Raises when the store is away: then the settler asks for the same batch again."""
        answered = zip(ended, acknowledged, strict=True)
        lost = [
            delivery
            for (delivery, outcome), result in answered
            if result is False and outcome is DONE and delivery.message_id
        ]
        if lost:
            try:
                self._store.note_ends([_name_of(delivery) for delivery in lost])
            except BrokerRefused as error:
                log.error("the ends of %d jobs cannot be remembered, and they run again: %s", len(lost), error)

    def known_ends(self, deliveries: Sequence[Delivery]) -> set[Delivery]:
        """The deliveries whose end was written, and could not be acknowledged."""
        names = {delivery: _name_of(delivery) for delivery in deliveries}
        known = self._store.known_ends([*names.values()])
        return {delivery for delivery, name in names.items() if name in known}


def _name_of(delivery: Delivery) -> str:
    """With the body: other programs may give two messages the same id."""
    text = f"{delivery.queue}\n{delivery.message_id}\n".encode("utf-8", "surrogatepass") + delivery.payload
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def _acknowledgement(finished: Finished) -> Finished:
    delivery, outcome = finished
    return delivery, Requeue(outcome.payload, outcome.last) if isinstance(outcome, Requeue) else DONE
