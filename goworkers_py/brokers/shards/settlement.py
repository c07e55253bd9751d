"""Settles deliveries, each on the shard that it was fetched from.

A shard that is away must not hold up the others. So the part of a batch for that shard gets an error for each of its
deliveries, and the settler brings them again in a later batch. The shard may have settled the part all the same, and
only its reply was lost: the part is kept as it was sent, and is the first thing that the shard is asked when it serves
again. Its answer is the result of these deliveries. A delivery is settled by one part at a time.

Each shard remembers the last part of each settler by its number. A part has the number of its batch, times PIECES. A
part that a shard refuses as a whole is settled in halves, down to the delivery that is to blame: they have the numbers
between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from goworkers_py.brokers.contracts.transport import Batch, Finished, Settled, refuse_late
from goworkers_py.brokers.shards.foreign_effects import ForeignEffects
from goworkers_py.brokers.shards.moves import Moves
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable
from goworkers_py.core.outcome import DONE, Keep

PIECES = 4_096

_Results = dict[Delivery, Settled]


class ShardSettlement:
    """Any thread settles; each settler has one batch at a time on its way."""

    def __init__(self, shards: ShardList, moves: Moves) -> None:
        self._shards = shards
        self._moves = moves
        self._foreign = ForeignEffects(shards)
        # By settler and shard. The thread of the settler alone uses its entries, and adds them in one step.
        self._parts: dict[tuple[str, int], _Part] = {}
        self._last: dict[str, int] = {}  # by settler, the number of its last batch; the same thread, in one step

    def settle(self, batch: Batch) -> Sequence[Settled]:
        if any(type(outcome) is Keep for _, outcome in batch.finished):
            raise ValueError("a delivery that is kept is not settled")
        refuse_late(batch.number, self._last.get(batch.settler, batch.number))
        self._last[batch.settler] = batch.number
        if not self._moves.unanswered:
            return self._settle_each(batch)
        known = self._moves.answers([one for one, _ in batch.finished])
        left = [finished for finished in batch.finished if finished[0] not in known]
        told = self._settle_each(dataclasses.replace(batch, finished=left)) if left else ()
        self._moves.forget(known)
        results = known | dict(zip((one for one, _ in left), told, strict=True))
        return [results[one] for one, _ in batch.finished]

    def _settle_each(self, batch: Batch) -> Sequence[Settled]:
        by_shard = self._by_shard(batch)
        if len(by_shard) == 1:
            [(shard, finished)] = by_shard.items()
            if (told := self._quickly(shard, batch)) is not None:
                return told
        results: _Results = {}
        failed: BrokerUnavailable | None = None
        for shard, finished in by_shard.items():
            held = batch.held if len(by_shard) == 1 else [one for one in batch.held if one.receipt == shard.number]
            try:
                results.update(self._settle(shard, Batch(batch.settler, batch.number * PIECES, finished, held)))
            except BrokerUnavailable as error:
                failed = error
                why = f"shard {shard.name}, which holds this job, cannot serve now: {error}"
                results.update((one, why) for one, _ in finished)
        if failed is not None and all(shard.away for shard in self._shards.all):
            for shard, finished in by_shard.items():
                self._part(shard, batch.settler).keep({one: results[one] for one, _ in finished})
            raise failed  # an outage of all: the same batch again
        return [results[one] for one, _ in batch.finished]

    def _by_shard(self, batch: Batch) -> dict[Shard, Sequence[Finished]]:
        """Jobs that were fetched together mostly end together, so most batches are of one shard."""
        numbers = {one.receipt for one, _ in batch.finished}
        if len(numbers) == 1 and None not in numbers:
            return {self._shards.all[numbers.pop()]: batch.finished}
        by_shard: dict[Shard, list[Finished]] = {}
        for one in batch.finished:
            by_shard.setdefault(self._shards.of(one[0]), []).append(one)
        return {**by_shard}

    def _quickly(self, shard: Shard, batch: Batch) -> Sequence[Settled] | None:
        """The results, without a look at each delivery. None where that is not possible."""
        part = self._part(shard, batch.settler)
        if not part.is_clear or any(outcome.effects for _, outcome in batch.finished if outcome is not DONE):
            return None
        try:
            return part.ask(Batch(batch.settler, max(batch.number * PIECES, part.number), batch.finished, batch.held))
        except (BrokerUnavailable, BrokerRefused):
            return None  # the part is kept, and asked again

    def _settle(self, shard: Shard, batch: Batch) -> _Results:
        refused: _Results = {}
        batch = self._foreign.without(shard, batch, refused)
        return self._part(shard, batch.settler).settle(batch) | refused

    def _part(self, shard: Shard, settler: str) -> _Part:
        part = self._parts.get((settler, shard.number))
        if part is None:
            part = self._parts[settler, shard.number] = _Part(shard)
        return part


class _Part:
    """What one settler settles on one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._unanswered: Batch | None = None  # sent, and its reply may have been lost
        self._known: _Results = {}  # of deliveries that the settler has not brought again yet
        self.number = 0  # of the last part that was sent

    @property
    def is_clear(self) -> bool:
        """Nothing is left of earlier parts."""
        return self._unanswered is None and not self._known

    def settle(self, batch: Batch) -> _Results:
        if self._unanswered is not None:
            again = self._unanswered
            try:
                self._note(again)
            except BrokerRefused:
                self._unanswered = None  # asked again, and refused: they are settled in other parts
        fresh = [one for one in batch.finished if one[0] not in self._known] if self._known else batch.finished
        if fresh:
            if self._known:
                self.number += 1  # not what the last part was, if this is the same batch again
            self._settle_in_pieces(Batch(batch.settler, batch.number, fresh, batch.held))
        return self._take_known(batch.finished)

    def keep(self, results: _Results) -> None:
        """The settler will bring these deliveries again. Asked under the same number, the shard would answer for those
        that it was asked for then: others may be asked now, because a shard with their foreign effects is back."""
        self._known.update((one, told) for one, told in results.items() if isinstance(told, bool))

    def _take_known(self, finished: Sequence[Finished]) -> _Results:
        return {one: self._known.pop(one) for one, _ in finished}

    def _settle_in_pieces(self, batch: Batch) -> None:
        number, waiting = max(batch.number, self.number), [batch.finished]
        while waiting:
            piece = waiting.pop()
            try:
                self._note(Batch(batch.settler, number, piece, batch.held))
            except BrokerRefused as error:
                self._unanswered = None
                if len(piece) == 1:
                    self._known[piece[0][0]] = str(error)
                else:
                    middle = len(piece) // 2
                    waiting += [piece[middle:], piece[:middle]]
            number += 1

    def _note(self, batch: Batch) -> None:
        told = self.ask(batch)
        self._known.update(zip((one for one, _ in batch.finished), told, strict=True))

    def ask(self, batch: Batch) -> Sequence[Settled]:
        if self._unanswered is None:
            # A shard that is away is not asked, so nothing of this part can happen.
            self._shard.ask(lambda broker: None)
            self._unanswered, self.number = batch, batch.number
        told = self._shard.ask(lambda broker: broker.transport.settle(batch))
        self._unanswered = None
        return told
