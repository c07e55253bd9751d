"""The limits, places and rates in the state of a memory broker, and for jobs that begin and for people. Lines are those
of the state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import partial

from goworkers_py.brokers.memory.endings import Endings
from goworkers_py.brokers.memory.parts import Decision, MemoryPart, TieInMemory
from goworkers_py.brokers.memory.published_push import PUSHED, PublishedPush
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.effect import Push
from goworkers_py.core.values import dataclass
from goworkers_py.features.limits.contract import Limits, SlotWish
from goworkers_py.features.limits.effects import HoldSlot, LeaveSlot
from goworkers_py.features.limits.limit import (
    BLOCK_S,
    LATE_S,
    LET_GO_MOST,
    LOOK_S,
    SOON_S,
    Begins,
    DueSlots,
    GivenAway,
    LimitEntry,
    LimitSettings,
    Looked,
    Rate,
    Slot,
    SlotClaim,
    SlotEntry,
    SlotHolder,
    Undeclared,
    Waits,
)
from goworkers_py.wire.stored_job import StoredJob


@dataclass(slots=True)
class _Places:
    held: dict[str, SlotHolder] = field(default_factory=dict)  # by jid
    tat: float = 0.0  # the theoretical arrival time of the rate
    # The block of code that has asked first and still asks: its name, since when, and until when it counts.
    block: tuple[str, float, float] = ("", 0.0, 0.0)


class SlotTable(MemoryPart):
    """Used under the lock of the state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.limits: dict[str, LimitEntry] = {}
        self.due: dict[Slot, float] = {}
        self._places: dict[Slot, _Places] = {}
        self.ties = {SlotClaim: TieInMemory(self._decide, self._take, of_queue=True)}
        self.effects = {
            LeaveSlot: lambda effect: self.leave(effect.slot, effect.jid),
            HoldSlot: lambda effect: self.hold(effect.slot, effect.jid),
        }

    def waiting(self, line: str) -> int:
        """How many jobs are in a line."""
        return len(self._state.lines.get(line, ()))

    def _decide(self, claim: SlotClaim, published: PublishedPush) -> Decision | None:
        if self.has_place(claim.slot, claim.jid):
            return None
        if self.waiting(claim.slot.line) or not self.has_room(claim.slot):
            return Decision(PUSHED, partial(self._wait, claim.slot, published.push))
        return None

    def _take(self, claim: SlotClaim, published: PublishedPush) -> None:
        if not self.has_place(claim.slot, claim.jid):
            self.spend(claim.slot, late=False)
            self.give(claim.slot, claim.jid, "", published.push.queue)

    def _wait(self, slot: Slot, push: Push) -> None:
        if all(job.payload != push.payload for job in self._state.lines.get(slot.line, {}).values()):
            self._state.park(slot.line, push.queue, push.payload)
            self.look_later(slot)

    def _let_go_next(self, line: str) -> tuple[str, str] | None:
        """Moves the oldest job of a line to the front of its queue. Returns its jid and its queue, if there is one."""
        oldest = next(iter(self._state.lines.get(line, {}).items()), None)
        if oldest is None:
            return None
        number, job = oldest
        self._state.unpark(line, number)
        self._state.put(job.queue, job.payload, first=True)
        return StoredJob(job.payload, job.queue).jid, job.queue

    def declare(self, limits: Sequence[LimitSettings]) -> None:
        for limit in limits:
            known = self.limits.get(limit.name)
            self.limits[limit.name] = LimitEntry(limit.name, limit) if known is None else replace(known, declared=limit)
            if known is not None and known.declared != limit:
                self.look_now(limit.name)

    def look_now(self, name: str) -> None:
        """More jobs of its lines may be allowed to go now."""
        for slot in self.due:
            if slot.limit == name:
                self.due[slot] = 0.0

    def slots(self) -> list[Slot]:
        return [*{**self._places, **self.due}]

    def holders(self, slot: Slot) -> list[SlotHolder]:
        places = self._places.get(slot)
        return [] if places is None else [*places.held.values()]

    def has_place(self, slot: Slot, jid: str) -> bool:
        places = self._places.get(slot)
        return places is not None and jid in places.held

    def has_room(self, slot: Slot) -> bool:
        limit = self.limits.get(slot.limit)
        concurrent = 1 if limit is None else limit.concurrent
        if concurrent is not None and len(self.holders(slot)) >= concurrent:
            return False
        return self._rate_at(slot) <= self._state.clock()

    def _rate_at(self, slot: Slot) -> float:
        """When the rate allows the next job."""
        rate, places = self._rate(slot), self._places.get(slot)
        if rate is None or places is None:
            return -math.inf
        return self._arrival(places, rate) - (rate.burst - 1) * rate.per_s / rate.amount

    def _arrival(self, places: _Places, rate: Rate) -> float:
        """As `arrival` in limit.lua."""
        now = self._state.clock()
        return now if places.tat > now + rate.burst * rate.per_s / rate.amount + 0.001 else places.tat

    def _rate(self, slot: Slot) -> Rate | None:
        limit = self.limits.get(slot.limit)
        return None if limit is None else limit.rate

    def give(self, slot: Slot, jid: str, owner: str, queue: str) -> None:
        self._places.setdefault(slot, _Places()).held[jid] = SlotHolder(jid, owner, self._state.clock(), queue)

    def spend(self, slot: Slot, late: bool) -> None:
        if (rate := self._rate(slot)) is not None:
            places = self._places.setdefault(slot, _Places())
            now = self._state.clock()
            arrival = self._arrival(places, rate) or now
            places.tat = max(arrival, now - (LATE_S if late else 0.0)) + rate.per_s / rate.amount

    def begin(self, slots: Sequence[Slot], jid: str, owner: str, queue: str, waits: bool) -> Slot | Undeclared | None:
        """Takes all places, or none: then it returns the first slot that is full. `waits`: the job would wait in a
        line, so it passes neither a line nor a block."""
        if any(slot.limit not in self.limits for slot in slots):
            return Undeclared()
        new = [slot for slot in self._in_order(slots) if not self.has_place(slot, jid)]
        for slot in new:
            block = self._block(slot)
            is_anothers = block is not None and block[0] != jid
            if not self.has_room(slot) or is_anothers or (waits and self.waiting(slot.line)):
                if not waits:
                    self._note_block(slot, jid)
                return slot
        for slot in slots:
            self._begin_in(slot, jid, owner, queue, slot in new)
        return None

    def _in_order(self, slots: Sequence[Slot]) -> list[Slot]:
        """As `is_before` in begin_limits.lua."""

        def rank(slot: Slot) -> int:
            return 0 if self.limits[slot.limit].declared.holds else 1 if slot.key else 2

        return sorted(slots, key=rank)

    def _begin_in(self, slot: Slot, jid: str, owner: str, queue: str, is_new: bool) -> None:
        if is_new:
            self.spend(slot, late=False)
        if self.limits[slot.limit].counts:
            self.give(slot, jid, owner, queue)
        elif not is_new:
            del self._places[slot].held[jid]
        self._end_turn(slot, jid)

    def _block(self, slot: Slot) -> tuple[str, float, float] | None:
        """The block of code whose turn is next."""
        places = self._places.get(slot)
        return places.block if places is not None and 0 < places.block[2] - self._state.clock() <= BLOCK_S else None

    def _note_block(self, slot: Slot, name: str) -> None:
        other, now = self._block(slot), self._state.clock()
        if other is None or other[0] == name:
            since = now if other is None else other[1]
            self._places.setdefault(slot, _Places()).block = name, since, now + BLOCK_S

    def _end_turn(self, slot: Slot, jid: str) -> bool:
        """Whether it was the turn of this block."""
        places = self._places.get(slot)
        if places is None or places.block[0] != jid:
            return False
        places.block = "", 0.0, 0.0
        return True

    def leave_block(self, slot: Slot, jid: str) -> None:
        """Also of a block that has given up before it got its place."""
        if self._end_turn(slot, jid):
            self.let_go(slot)
        self.leave(slot, jid)

    def give_up(self, slots: Sequence[Slot], full: Slot, jid: str) -> None:
        """A job that waits for `full` gives up its other places, but for those before it in the order. So no two jobs
        wait for each other."""
        order = self._in_order(slots)
        for slot in order[: order.index(full)]:
            if self.has_place(slot, jid):
                self.give(slot, jid, "", full.line)
        for slot in order[order.index(full) :]:
            if self.limits[slot.limit].counts:
                self.leave(slot, jid)

    def leave(self, slot: Slot, jid: str) -> None:
        if self.has_place(slot, jid):
            del self._places[slot].held[jid]
            self.let_go(slot)

    def hold(self, slot: Slot, jid: str) -> None:
        if self.has_place(slot, jid):
            self.give(slot, jid, "", self._places[slot].held[jid].queue)

    def let_go(self, slot: Slot, most: int = LET_GO_MOST) -> int:
        count = 0
        while count < most and self.has_room(slot) and not self._is_turn_of_block(slot):
            gone = self._let_go_next(slot.line)
            if gone is None:
                break
            self.give(slot, gone[0], "", gone[1])
            self.spend(slot, late=True)
            count += 1
        self.look_later(slot)
        return count

    def _is_turn_of_block(self, slot: Slot) -> bool:
        block, oldest = self._block(slot), next(iter(self._state.lines.get(slot.line, {}).values()), None)
        return block is not None and oldest is not None and block[1] < oldest.at

    def look_later(self, slot: Slot) -> None:
        """Notes when to look at the line next. Forgets places that nobody needs."""
        now, at = self._state.clock(), self._rate_at(slot)
        if self.waiting(slot.line):
            block, look_s = self._block(slot), SOON_S if self.waiting(slot.line) == 1 else LOOK_S
            self.due[slot] = at if at > now else now + look_s if block is None else block[2]
        else:
            self.due.pop(slot, None)
        places = self._places.get(slot)
        if places is not None and not places.held and max(places.tat, places.block[2]) <= now - LATE_S:
            del self._places[slot]

    def drop(self, holder: SlotHolder, slot: Slot, keep: bool) -> None:
        """Of a holder that was read before. `keep`: the place stays, without an owner."""
        places = self._places.get(slot)
        if places is None or places.held.get(holder.jid) != holder:
            return
        if keep:
            self.hold(slot, holder.jid)
        else:
            del places.held[holder.jid]


class MemoryLimits(Limits):
    def __init__(self, state: State, endings: Endings) -> None:
        self._state = state
        self._endings = endings
        self._table = state.part(SlotTable)

    def declare(self, limits: Sequence[LimitSettings]) -> None:
        with self._state.lock:
            self._table.declare(limits)

    def begin(self, wish: SlotWish) -> Begins | Waits | GivenAway | Undeclared:
        delivery, state = wish.delivery, self._state
        with state.lock:
            full = self._table.begin(wish.slots, wish.jid, delivery.identity, delivery.queue, waits=True)
            if full is None:
                return Begins()
            if isinstance(full, Undeclared):
                return full
            if not state.take_from_progress(delivery.identity, delivery.queue, delivery.receipt):
                return GivenAway()
            state.park(full.line, delivery.queue, wish.parked)
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

    def look(
        self, slot: Slot, queues: Sequence[str] = (), gone: Sequence[SlotHolder] = (), most: int = LET_GO_MOST
    ) -> Looked:
        with self._state.lock:
            for holder in gone:
                self._table.drop(holder, slot, keep=False)
            limit = self._table.limits.get(slot.limit)
            for holder in self._table.holders(slot):
                if holder.owner and self._state.is_dead(holder.owner):
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
            entries = [self._entry(slot) for slot in found]
        return (entry for entry in entries if entry.waiting or entry.holders)

    def _entry(self, slot: Slot) -> SlotEntry:
        waiting = [*self._state.lines.get(slot.line, {}).values()]
        oldest = waiting[0].payload if waiting else b""
        return SlotEntry(slot, len(waiting), self._table.holders(slot), oldest)

    def forget(self, name: str) -> bool:
        with self._state.lock:
            return self._table.limits.pop(name, None) is not None
