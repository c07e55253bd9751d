"""Settles deliveries, each on the shard that it was fetched from.

A shard that is away must not hold up the others. So the part of a batch for that shard gets an error for each of its
deliveries, and the settler brings them again in a later batch, see `brokers.parts`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from goworkers_py.brokers.contracts.transport import Batch, Finished, Settled, refuse_late
from goworkers_py.brokers.parts import PIECES, Part, Results
from goworkers_py.brokers.shards.foreign_effects import ForeignEffects
from goworkers_py.brokers.shards.moves import Moves
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core.errors import BrokerError, is_no_answer
from goworkers_py.core.outcome import DONE, Keep


class ShardSettlement:
    """Any thread settles; each settler has one batch at a time on its way."""

    def __init__(self, shards: ShardList, moves: Moves) -> None:
        self._shards = shards
        self._moves = moves
        self._foreign = ForeignEffects(shards)
        # By settler and shard. The thread of the settler alone uses its entries, and adds them in one step.
        self._parts: dict[tuple[str, int], Part] = {}
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
        results: Results = {}
        failed: BrokerError | None = None
        for shard, finished in by_shard.items():
            held = batch.held if len(by_shard) == 1 else [one for one in batch.held if one.receipt == shard.number]
            try:
                results.update(self._settle(shard, Batch(batch.settler, batch.number * PIECES, finished, held)))
            except BrokerError as error:
                if not is_no_answer(error):
                    raise
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
        number = batch.number * PIECES
        if (
            part.number >= number
            or not part.is_clear
            or any(outcome.effects for _, outcome in batch.finished if outcome is not DONE)
        ):
            return None
        try:
            return part.ask(Batch(batch.settler, number, batch.finished, batch.held))
        except Exception:
            return None  # the part is kept, and asked again

    def _settle(self, shard: Shard, batch: Batch) -> Results:
        refused: Results = {}
        batch = self._foreign.without(shard, batch, refused)
        return self._part(shard, batch.settler).settle(batch) | refused

    def _part(self, shard: Shard, settler: str) -> Part:
        part = self._parts.get((settler, shard.number))
        if part is None:
            part = self._parts[settler, shard.number] = Part(
                lambda batch: shard.ask(lambda broker: broker.transport.settle(batch)),
                lambda: shard.ask(lambda broker: None),
            )
        return part
