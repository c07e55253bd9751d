"""The locks of unique jobs in the state of a memory broker, and for those that begin and for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from goworkers_py.brokers.memory.parts import Decision, MemoryPart, TieInMemory
from goworkers_py.brokers.memory.published_push import PublishedPush
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.effect import KEPT_S
from goworkers_py.core.holder import Conflict, Holder
from goworkers_py.core.values import dataclass
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.effects import FreeLock, KeepLock
from goworkers_py.features.unique.lock import (
    RESCHEDULED_S,
    Begin,
    Begun,
    LockClaim,
    LockEntry,
    OwnedLock,
    TooEarly,
)


@dataclass(slots=True)
class _Held:
    holder: Holder
    expires_at: float
    token: bytes = b""  # the payload of a holder that reads `fields` as it begins
    fields: bytes = b""
    number: int = 0  # of the push that took the lock
    owner: str = ""  # the identity of the process that runs the job; the lock has no end then

    def end_with(self, owner: str) -> None:
        if owner:
            self.owner, self.expires_at = owner, math.inf

    def last(self, until: float, now: float) -> None:
        """At least until then, also where its job has run."""
        if self.owner:
            self.owner, self.expires_at = "", now + KEPT_S if self.fields else 0.0
        self.expires_at = max(self.expires_at, until)


class LockTable(MemoryPart):
    """Used under the lock of the state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._held: dict[str, _Held] = {}
        self._look_at = 1_000  # so many locks are looked through for expired ones
        self.ties = {LockClaim: TieInMemory(self._decide, self._take, holder=self._holder)}
        self.effects = {FreeLock: lambda effect: self.free(effect.name, effect.jid), KeepLock: self._keep}

    def get(self, name: str) -> _Held | None:
        held = self._held.get(name)
        return held if held is not None and held.expires_at > self._state.clock() else None

    def names(self) -> list[str]:
        return [name for name in self._held if self.get(name) is not None]

    def _decide(self, claim: LockClaim, published: PublishedPush) -> Decision | None:
        held, at = self.get(claim.name), published.push.at
        if held is None or held.number == published.number or held.holder.jid == claim.instead_of:
            return None
        if claim.on_conflict == "replace" and held.token:
            held.fields, held.holder = claim.fields, replace(held.holder, due=at)
            life_s = max(self._life_s(claim.for_s, at), KEPT_S)
            held.expires_at = max(held.expires_at, self._state.clock() + life_s)
            self._state.advance(held.token, at)
            return Decision(Conflict(held.holder, "replaced"))
        if claim.on_conflict == "reschedule":
            place = partial(self._state.postpone, published, self._state.clock() + RESCHEDULED_S)
            return Decision(Conflict(held.holder, "rescheduled"), place)
        return Decision(Conflict(held.holder, "held"))

    def _take(self, claim: LockClaim, published: PublishedPush) -> None:
        held, push = self.get(claim.name), published.push
        if held is not None and held.number == published.number:
            return
        life_s = self._life_s(claim.for_s, push.at)
        reads = claim.on_conflict == "replace"
        holder, token = Holder(claim.jid, push.queue, self._state.clock(), push.at), push.payload if reads else b""
        self.take(claim.name, holder, max(life_s, KEPT_S) if reads else life_s, token, published.number)

    def _holder(self, claim: LockClaim) -> Holder | None:
        held = self.get(claim.name) if claim.on_conflict in ("skip", "raise") else None
        return None if held is None or held.holder.jid == claim.instead_of else held.holder

    def take(self, name: str, holder: Holder, life_s: float, token: bytes = b"", number: int = 0) -> None:
        self._held[name] = _Held(holder, self._state.clock() + life_s, token, number=number)
        if len(self._held) >= self._look_at:
            self._held = {name: held for name, held in self._held.items() if held.expires_at > self._state.clock()}
            self._look_at = max(1_000, 2 * len(self._held))

    def _life_s(self, for_s: int, due: float | None) -> int:
        """How long a lock lasts from now on whose job is due then."""
        return for_s + (max(0, int(due - self._state.clock())) if due is not None else 0)

    def free(self, name: str, jid: str) -> None:
        held = self.get(name)
        if held is not None and held.holder.jid == jid:
            del self._held[name]

    def free_any(self, name: str) -> bool:
        return self.get(name) is not None and self._held.pop(name, None) is not None

    def _keep(self, kept: KeepLock) -> None:
        held = self.get(kept.name)
        if held is not None and held.holder.jid == kept.jid:
            held.last(self._state.clock() + self._life_s(kept.for_s, kept.due), self._state.clock())
            held.holder = replace(held.holder, due=kept.due)

    def own(self, lock: OwnedLock) -> str:
        held = self.get(lock.name)
        if held is None or held.holder.jid != lock.jid:
            return "" if held is None else held.holder.jid
        # The run of which the owner knows may have ended just now. Then another process may run the job, or the lock
        # was kept for a later run.
        others_run = held.owner not in ("", lock.owner) and not self._state.is_dead(held.owner)
        waits = not held.owner and held.expires_at > self._state.clock() + lock.for_s
        if not others_run and not waits:
            held.end_with(lock.owner)
        return ""

    def disown(self, lock: OwnedLock) -> None:
        held = self.get(lock.name)
        if held is not None and held.holder.jid == lock.jid and held.owner == lock.owner:
            held.last(self._state.clock() + lock.for_s, self._state.clock())

    def begin(self, begin: Begin) -> Begun | TooEarly | Holder:
        held = self.get(begin.name)
        if held is not None and held.holder.jid not in (begin.jid, begin.instead_of):
            return held.holder if begin.take else Begun()
        if held is None or held.holder.jid != begin.jid:
            if begin.take and not begin.free:
                self.take(begin.name, Holder(begin.jid, begin.queue, self._state.clock()), begin.for_s)
                self._held[begin.name].end_with(begin.owner)
            return Begun()
        if begin.free:
            self.free(begin.name, begin.jid)
            return Begun()
        if begin.read:
            return self._read(held, begin)
        held.end_with(begin.owner)
        return Begun()

    def _read(self, held: _Held, begin: Begin) -> Begun | TooEarly:
        due = held.holder.due
        if held.token and held.fields and due is not None and due > self._state.clock():
            return TooEarly(due)
        if begin.looks:
            return Begun(held.fields)
        held.token = b""
        if not held.fields:
            held.expires_at = self._state.clock() + begin.for_s
        held.end_with(begin.owner)
        return Begun(held.fields)


class MemoryLocks(Locks):
    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.part(LockTable)
        self._lock = state.lock

    def begin(self, begin: Begin) -> Begun | TooEarly | Holder:
        with self._lock:
            return self._table.begin(begin._replace(owner="") if self._died(begin.owner) else begin)

    def own(self, locks: Sequence[OwnedLock]) -> list[str | None]:
        with self._lock:
            return ["" if self._died(lock.owner) else self._table.own(lock) for lock in locks]

    def disown(self, locks: Sequence[OwnedLock]) -> None:
        with self._lock:
            for lock in locks:
                self._table.disown(lock)

    def _died(self, owner: str) -> bool:
        record = self._state.leases.get(owner)
        return record is not None and record.died_at is not None

    def entries(self, prefix: str = "") -> Iterator[LockEntry]:
        with self._lock:
            names = [name for name in self._table.names() if name.startswith(prefix)]
        return (entry for name in names if (entry := self.entry(name)) is not None)

    def entry(self, name: str) -> LockEntry | None:
        with self._lock:
            held = self._table.get(name)
            if held is None:
                return None
            replaced = bool(held.fields)
            expires_at = None if held.owner else held.expires_at
            return LockEntry(name, held.holder, expires_at, replaced and not held.token, replaced, held.owner)

    def free(self, name: str) -> bool:
        with self._lock:
            return self._table.free_any(name)
