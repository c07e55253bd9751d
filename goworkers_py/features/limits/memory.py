"""The limits of a memory broker, for jobs that begin, and for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from goworkers_py.brokers.memory.endings import Endings
from goworkers_py.brokers.memory.state import State
from goworkers_py.features.limits import contract as limits
from goworkers_py.features.limits.contract import SlotWish
from goworkers_py.features.limits.limit import (
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


def is_dead(state: State, owner: str) -> bool:
    """Under the lock. Declared dead, or in no registry. A missing lease is no death."""
    record = state.leases.get(owner) or state.block_owners.get(owner)
    return record is None or record.died_at is not None


class MemoryLimits(limits.Limits):
    def __init__(self, state: State, endings: Endings) -> None:
        self._state = state
        self._endings = endings
        self._table = state.slots

    def declare(self, limits: Sequence[LimitSettings]) -> None:
        with self._state.lock:
            self._table.declare(limits)

    def begin(self, wish: SlotWish) -> Begins | Waits | Lost | Undeclared:
        one, state = wish.delivery, self._state
        with state.lock:
            full = self._table.begin(wish.slots, wish.jid, one.identity, one.queue, waits=True)
            if full is None:
                return Begins()
            if isinstance(full, Undeclared):
                return full
            if not state.take_from_progress(one.identity, one.queue, one.receipt):
                return Lost()
            state.park(full.line, one.queue, wish.parked)
            self._endings.apply(wish.effects)
            self._table.let_go(full)
            self._table.give_up(wish.slots, full, wish.jid)
            return Waits(full.line)

    def take(self, slot: Slot, jid: str, owner: str) -> bool | Undeclared:
        with self._state.lock:
            full = self._table.begin([slot], jid, owner, "", waits=False)
            return full if isinstance(full, Undeclared) else full is None

    def leave(self, slot: Slot, jid: str, queues: Sequence[str] = (), owner: str = "") -> None:
        with self._state.lock:
            self._table.leave_block(slot, jid)

    def due(self, limit: int, within_s: float = 0.0) -> DueSlots:
        with self._state.lock:
            clock = self._state.clock()
            now = clock + within_s
            by_time = sorted((at, slot) for slot, at in self._table.due.items())
        due = [slot for at, slot in by_time if at <= now][:limit]
        later = [at for at, _ in by_time if at > now]
        return DueSlots(due, later[0] - now if later else None, clock)

    def look(self, slot: Slot, queues: Sequence[str] = (), gone: Sequence[SlotHolder] = (), most: int = 50) -> Looked:
        with self._state.lock:
            for holder in gone:
                self._table.drop(holder, slot, keep=False)
            limit = self._table.limits.get(slot.limit)
            for holder in self._table.holders(slot):
                if holder.owner and is_dead(self._state, holder.owner):
                    # A block, which has no queue, is never recovered.
                    keeps = limit is not None and limit.declared.holds and bool(holder.queue)
                    self._table.drop(holder, slot, keeps)
            let_go = self._table.let_go(slot, most)
            return Looked(let_go, self._table.waiting(slot.line))

    def holders(self, slot: Slot) -> list[SlotHolder]:
        with self._state.lock:
            return self._table.holders(slot)

    # --- people

    def set(self, name: str, concurrent: int | None = None, rate: Rate | None = None) -> bool:
        with self._state.lock:
            known = self._table.limits.get(name)
            if known is None:
                return False
            concurrent = known.set_concurrent if concurrent is None else concurrent
            self._table.limits[name] = replace(known, set_concurrent=concurrent, set_rate=rate or known.set_rate)
            self._table.look_now(name)
            return True

    def unset(self, name: str) -> bool:
        with self._state.lock:
            known = self._table.limits.get(name)
            if known is None or (known.set_concurrent is None and known.set_rate is None):
                return False
            self._table.limits[name] = LimitEntry(name, known.declared)
            self._table.look_now(name)
            return True

    def entries(self) -> list[LimitEntry]:
        with self._state.lock:
            return [self._table.limits[name] for name in sorted(self._table.limits)]

    def slots(self, name: str) -> Iterator[SlotEntry]:
        with self._state.lock:
            found = [slot for slot in self._table.slots() if slot.limit == name]
            told = [self._entry(slot) for slot in found]
        return (entry for entry in told if entry.waiting or entry.holders)

    def _entry(self, slot: Slot) -> SlotEntry:
        waiting = [*self._state.lines.get(slot.line, {}).values()]
        oldest = waiting[0].payload if waiting else b""
        return SlotEntry(slot, len(waiting), self._table.holders(slot), oldest)

    def forget(self, name: str) -> bool:
        with self._state.lock:
            return self._table.limits.pop(name, None) is not None
