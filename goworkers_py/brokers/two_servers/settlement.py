"""Settles the deliveries of two servers: those of the store there, those of the queue service on both.

No step can cover both servers. So for a delivery of the queue service the store is written first, and the delivery is
acknowledged then (`StoreFirst`). A process that is killed between the two leaves the job in progress, and it is
delivered again: it runs twice. Nothing is lost, and the effects of its end happen once, because the store knows their
ids. Jobs that a job has pushed in its own step go into the queues of the store.

An end that is written and cannot be acknowledged, because the connection was lost or the server has taken the delivery
back, is remembered by the message: when the message comes again, it is acknowledged and not run.

A part of a batch (`SettlementPart`) goes to one server. Its reply may be lost, while the parts for other servers were
answered. So a part is kept as it was sent, and is the first thing that its server is asked when it serves again. Its
answer is the result of these deliveries. A delivery is settled by one part at a time.

A server remembers the last part of each settler by its number. A part has the number of its batch, times PIECES. A part
that is refused as a whole, or that has an outcome which cannot be written, is settled in halves, down to the delivery
that is to blame: they have the numbers between.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Sequence

from goworkers_py.brokers.contracts.store import Store
from goworkers_py.brokers.contracts.transport import (
    Finished,
    Settled,
    SettlementBatch,
    Transport,
    refuse_late,
    settled_with,
)
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused, is_no_answer
from goworkers_py.core.outcome import DONE, NOT_SETTLED, Requeue

log = logging.getLogger(__name__)

PIECES = 4_096

Results = dict[Delivery, Settled]


class SettlementPart:
    """The settler's thread uses it."""

    def __init__(self, settle: Callable[[SettlementBatch], Sequence[Settled]]) -> None:
        """`settle` settles a batch on the server."""
        self._settle = settle
        self._unanswered: SettlementBatch | None = None  # sent, and its reply may have been lost
        self._known: Results = {}  # of deliveries that the settler has not brought again yet
        self._number = 0  # of the last part that was sent
        self._of_batch = 0  # the number of the last batch
        self._in_pieces: tuple[int, Results] = 0, {}  # the number and the results of the last batch that was halved

    def settle(self, batch: SettlementBatch) -> Results:
        refuse_late(batch.number, self._of_batch)
        self._of_batch = batch.number
        number, results = self._in_pieces
        is_clear = self._unanswered is None and not self._known  # nothing is left of earlier parts
        if number == batch.number and is_clear and results.keys() == {delivery for delivery, _ in batch.finished}:
            return {**results}
        if self._unanswered is not None:
            again = self._unanswered
            try:
                self._note(again)
            except Exception as error:
                if is_no_answer(error):
                    raise
                self._unanswered = None  # asked again, and refused: they are settled in other parts
        fresh = [pair for pair in batch.finished if pair[0] not in self._known] if self._known else batch.finished
        if fresh:
            if self._known:
                self._number += 1  # not what the last part was, if this is the same batch again
            self._settle_in_pieces(SettlementBatch(batch.settler, batch.number, fresh, batch.held))
        results = {delivery: self._known.pop(delivery) for delivery, _ in batch.finished}
        if self._number > batch.number:
            self._in_pieces = batch.number, results
        return {**results}

    def keep(self, results: Results) -> None:
        """The settler will bring these deliveries again: then they have these results, and the server is not asked."""
        self._known.update((delivery, result) for delivery, result in results.items() if isinstance(result, bool))

    def _settle_in_pieces(self, batch: SettlementBatch) -> None:
        number, waiting = max(batch.number, self._number), [batch.finished]
        while waiting:
            piece = waiting.pop()
            try:
                self._note(SettlementBatch(batch.settler, number, piece, batch.held))
            except Exception as error:
                if is_no_answer(error):
                    raise
                self._unanswered = None  # refused; or an outcome that cannot be written, and nothing was sent
                if len(piece) == 1:
                    self._known[piece[0][0]] = settled_with(error)
                else:
                    middle = len(piece) // 2
                    waiting += [piece[middle:], piece[:middle]]
            number += 1

    def _note(self, batch: SettlementBatch) -> None:
        """Asks the server, and remembers the results until the settler has them."""
        if self._unanswered is None:
            self._unanswered, self._number = batch, batch.number
        results = self._settle(batch)
        self._unanswered = None
        self._known.update(zip((delivery for delivery, _ in batch.finished), results, strict=True))


class StoreFirst:
    """The verb `settle` of a Transport on two servers."""

    def __init__(self, queues: Transport, store: Store) -> None:
        self._queues = queues
        self._store = store
        self._parts = dict[str, SettlementPart]()  # by settler; each use is one step

    def settle(self, batch: SettlementBatch) -> Sequence[Settled]:
        """When it raises, the caller asks for the same batch again, as for any transport."""
        if any(isinstance(outcome, NOT_SETTLED) for _, outcome in batch.finished):
            raise ValueError("no broker settles an outcome of NOT_SETTLED")
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
