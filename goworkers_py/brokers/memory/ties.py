"""What the jobs of a memory broker are tied to: locks, groups, batches, chains and the slots of limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from goworkers_py.brokers.memory.batch_table import BatchTable
from goworkers_py.brokers.memory.chain_table import ChainTable
from goworkers_py.brokers.memory.group_table import GroupTable
from goworkers_py.core.effect import Effect, EndSet
from goworkers_py.core.tie_effect import EndInBatch, EndLink
from goworkers_py.features.limits.memory_slots import SlotTable
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.features.unique.memory_locks import LockTable


@dataclass(frozen=True, slots=True)
class TieTables:
    """Used under the lock of the state."""

    locks: LockTable
    groups: GroupTable
    batches: BatchTable
    chains: ChainTable
    slots: SlotTable

    def follow(self, effects: Iterable[Effect]) -> None:
        """Does what these effects on ties say; others are left out."""
        for effect in effects:
            match effect:
                case FreeLock(jid, name):
                    self.locks.free(name, jid)
                case KeepLock():
                    self.locks.keep(effect)
                case EndSet():
                    self.groups.end_set(effect.group)
                case EndInBatch(_, member, way, death):
                    self.batches.end(member.bid, way, effect.name, death)
                case EndLink():
                    self.chains.end(effect)
                case _:
                    self.slots.follow(effect)
