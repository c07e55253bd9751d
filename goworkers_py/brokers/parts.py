"""The part of a batch that goes to one of several servers, and what one settler settles there.

Its reply may be lost, while the parts for other servers were answered. So a part is kept as it was sent, and is the
first thing that its server is asked when it serves again. Its answer is the result of these deliveries. A delivery is
settled by one part at a time.

A server remembers the last part of each settler by its number. A part has the number of its batch, times PIECES. A part
that is refused as a whole, or that has an outcome which cannot be written, is settled in halves, down to the delivery
that is to blame: they have the numbers between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goworkers_py.brokers.contracts.transport import Settled, SettlementBatch, Unwritable, refuse_late
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused, is_no_answer

PIECES = 4_096

Results = dict[Delivery, Settled]


class SettlementPart:
    """The settler's thread uses it."""

    def __init__(
        self, ask: Callable[[SettlementBatch], Sequence[Settled]], check: Callable[[], None] = lambda: None
    ) -> None:
        """`ask` settles a batch on the server; `check` raises while the server is away."""
        self._settle, self._check = ask, check
        self._unanswered: SettlementBatch | None = None  # sent, and its reply may have been lost
        self._known: Results = {}  # of deliveries that the settler has not brought again yet
        self.number = 0  # of the last part that was sent
        self._of_batch = 0  # the number of the last batch
        self._in_pieces: tuple[int, Results] = 0, {}  # the number and the results of the last batch that was halved

    @property
    def is_clear(self) -> bool:
        """Nothing is left of earlier parts."""
        return self._unanswered is None and not self._known

    def settle(self, batch: SettlementBatch) -> Results:
        refuse_late(batch.number, self._of_batch)
        self._of_batch = batch.number
        number, results = self._in_pieces
        if number == batch.number and self.is_clear and results.keys() == {delivery for delivery, _ in batch.finished}:
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
                self.number += 1  # not what the last part was, if this is the same batch again
            self._settle_in_pieces(SettlementBatch(batch.settler, batch.number, fresh, batch.held))
        results = {delivery: self._known.pop(delivery) for delivery, _ in batch.finished}
        if self.number > batch.number:
            self._in_pieces = batch.number, results
        return {**results}

    def keep(self, results: Results) -> None:
        """The settler will bring these deliveries again: then they have these results, and the server is not asked."""
        self._known.update((delivery, result) for delivery, result in results.items() if isinstance(result, bool))

    def _settle_in_pieces(self, batch: SettlementBatch) -> None:
        number, waiting = max(batch.number, self.number), [batch.finished]
        while waiting:
            piece = waiting.pop()
            try:
                self._note(SettlementBatch(batch.settler, number, piece, batch.held))
            except Exception as error:
                if is_no_answer(error):
                    raise
                self._unanswered = None  # refused; or an outcome that cannot be written, and nothing was sent
                if len(piece) == 1:
                    self._known[piece[0][0]] = error_of(error)
                else:
                    middle = len(piece) // 2
                    waiting += [piece[middle:], piece[:middle]]
            number += 1

    def _note(self, batch: SettlementBatch) -> None:
        results = self.ask(batch)
        self._known.update(zip((delivery for delivery, _ in batch.finished), results, strict=True))

    def ask(self, batch: SettlementBatch) -> Sequence[Settled]:
        if self._unanswered is None:
            self._check()  # a server that is away is not asked, so nothing of this part can happen
            self._unanswered, self.number = batch, batch.number
        results = self._settle(batch)
        self._unanswered = None
        return results


def error_of(error: Exception) -> str:
    """The result of the delivery whose outcome raises it."""
    return str(error) if isinstance(error, BrokerRefused) else Unwritable(f"{type(error).__name__}: {error}")
