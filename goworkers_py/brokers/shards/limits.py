"""Limits: what they allow is on every shard, and each slot with its places and its line on the home of its name.

A job that begins takes its places in one step with its delivery, so it has to be on the home of its slot. Jobs of a
strict limit are pushed there. A job of another limit is pushed as a plain job, and moved there when it begins for the
first time, see `moves`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts.limits import Limits, SlotWish
from goworkers_py.brokers.shards.moves import Moves
from goworkers_py.brokers.shards.placement import key_of_slot
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList, T, Verb
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.limit import (
    Apart,
    Begins,
    DueSlots,
    LimitEntry,
    LimitSettings,
    Looked,
    Lost,
    Rate,
    Slot,
    SlotEntry,
    SlotHolder,
    Undeclared,
    Waits,
)
from goworkers_py.wire.batch import batch_of
from goworkers_py.wire.chain import chain_of
from goworkers_py.wire.lock import lock_of
from goworkers_py.wire.stored_job import StoredJob

REMEDY = "leave one of them out, or put these jobs on one server, in a partition of its own"


class ShardedLimits(Limits):
    def __init__(self, shards: ShardList, moves: Moves) -> None:
        self._shards = shards
        self._moves = moves

    def declare(self, limits: Sequence[LimitSettings]) -> None:
        self._shards.answers(lambda broker: broker.limits.declare(limits))

    # --- jobs that begin

    def refusal(self, slots: Sequence[Slot], beside: str = "") -> str:
        if beside and slots:
            return f"a job on shards has a limit or {beside}, not both, and this has the limit {slots[0].id}; {REMEDY}"
        if len({self._home(slot) for slot in slots}) > 1:
            named = " and ".join(f"{slot.id} on shard {self._home(slot).name}" for slot in slots)
            return f"the limits of a job live on one shard, and these do not: {named}; {REMEDY}"
        return ""

    def begin(self, wish: SlotWish) -> Begins | Waits | Lost | Undeclared | Apart:
        if why := self.refusal(wish.slots):
            return Apart(why)
        slot = wish.slots[0]
        home, shard = self._home(slot), self._shards.of(wish.delivery)
        if home is shard:
            names = " and ".join(slot.id for slot in wish.slots)
            return self._shards.bound(home, f"the limit {names}", lambda broker: broker.limits.begin(wish))
        if why := self.refusal(wish.slots, _beside(wish.delivery)):
            return Apart(why)
        return Waits(slot.line) if self._moves.move(wish, shard, home) else Lost()

    def take(self, slot: Slot, jid: str, owner: str) -> bool | Undeclared:
        return self._at_home(slot, lambda broker: broker.limits.take(slot, jid, owner))

    def leave(self, slot: Slot, jid: str, queues: Sequence[str] = (), owner: str = "") -> None:
        self._at_home(slot, lambda broker: broker.limits.leave(slot, jid, queues, owner))

    # --- looks

    def due(self, limit: int, within_s: float = 0.0) -> DueSlots:
        told = self._shards.answers(lambda broker: broker.limits.due(limit, within_s))
        slots = [slot for one in told for slot in one.slots]
        waits = [one.next_in_s for one in told if one.next_in_s is not None]
        if len(slots) > limit:
            waits.append(0.0)
        return DueSlots(slots[:limit], min(waits, default=None), told[0].now)

    def look(self, slot: Slot, queues: Sequence[str] = (), gone: Sequence[SlotHolder] = (), most: int = 50) -> Looked:
        return self._at_home(slot, lambda broker: broker.limits.look(slot, queues, gone, most))

    def holders(self, slot: Slot) -> list[SlotHolder]:
        return self._at_home(slot, lambda broker: broker.limits.holders(slot))

    # --- people

    def set(self, name: str, concurrent: int | None = None, rate: Rate | None = None) -> bool:
        return any(self._shards.every(lambda broker: broker.limits.set(name, concurrent, rate)))

    def unset(self, name: str) -> bool:
        return any(self._shards.every(lambda broker: broker.limits.unset(name)))

    def entries(self) -> list[LimitEntry]:
        told = self._shards.answers(lambda broker: broker.limits.entries())
        by_name = {entry.name: entry for entries in reversed(told) for entry in entries}
        return [by_name[name] for name in sorted(by_name)]

    def slots(self, name: str) -> Iterator[SlotEntry]:
        return self._shards.steps(lambda broker: broker.limits.slots(name))

    def forget(self, name: str) -> bool:
        return any(self._shards.every(lambda broker: broker.limits.forget(name)))

    def _home(self, slot: Slot) -> Shard:
        return self._shards.home(key_of_slot(slot))

    def _at_home(self, slot: Slot, verb: Verb[T]) -> T:
        return self._shards.at_home(key_of_slot(slot), f"the limit {slot.id}", verb)


def _beside(one: Delivery) -> str:
    """The guarantee that keeps the job on its shard; empty for a job that may move."""
    message = StoredJob(one.payload, one.queue).message
    fields = message.fields if message is not None else {}
    kinds = {"a lock": lock_of, "a batch": batch_of, "a chain": chain_of}
    return next((what for what, found in kinds.items() if found(fields)), "")
