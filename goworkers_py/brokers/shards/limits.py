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
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.limit import (
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
from goworkers_py.wire.lock import lock_of
from goworkers_py.wire.stored_job import StoredJob


class ShardedLimits(Limits):
    def __init__(self, shards: ShardList, moves: Moves) -> None:
        self._shards = shards
        self._moves = moves

    def declare(self, limits: Sequence[LimitSettings]) -> None:
        self._shards.answers(lambda broker: broker.limits.declare(limits))

    # --- jobs that begin

    def begin(self, wish: SlotWish) -> Begins | Waits | Lost | Undeclared:
        homes = {self._home(slot) for slot in wish.slots}
        names = " and ".join(slot.id for slot in wish.slots)
        if len(homes) > 1:
            raise BrokerRefused(f"the limits {names} live on different shards: give a job on shards one limit only")
        [home] = homes
        shard = self._shards.of(wish.delivery)
        if home is not shard:
            return self._move(wish, shard, home)
        return self._shards.bound(home, f"the limit {names}", lambda broker: broker.limits.begin(wish))

    def _move(self, wish: SlotWish, shard: Shard, home: Shard) -> Waits | Lost:
        one, slot = wish.delivery, wish.slots[0]
        fields = StoredJob(one.payload, one.queue).message
        if fields is not None and (lock_of(fields.fields) or batch_of(fields.fields)):
            raise BrokerRefused(
                f"the limit {slot.id} lives on shard {home.name}, and the lock or batch of this job on {shard.name}: "
                "give a job on shards one of them only"
            )
        return Waits(slot.line) if self._moves.move(one, wish.jid, shard, slot) else Lost()

    def take(self, slot: Slot, jid: str, owner: str) -> bool | Undeclared:
        return self._at_home(slot, lambda broker: broker.limits.take(slot, jid, owner))

    def leave(self, slot: Slot, jid: str, queues: Sequence[str] = ()) -> None:
        self._at_home(slot, lambda broker: broker.limits.leave(slot, jid, queues))

    def keep_owner(self, owner: str, life_s: int) -> None:
        self._shards.answers(lambda broker: broker.limits.keep_owner(owner, life_s))

    # --- looks

    def due(self, limit: int, within_s: float = 0.0) -> DueSlots:
        self._moves.relay.wake()  # a process that was killed may have left jobs in an outbox
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
