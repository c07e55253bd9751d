"""The locks of unique jobs in the state of a memory broker."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from goworkers_py.core.effect import Push
from goworkers_py.core.holder import Conflict, Holder
from goworkers_py.features.tracking.record import LIVE_S
from goworkers_py.features.unique.effects import KeepLock
from goworkers_py.features.unique.lock import Begin, Begun, LockClaim, OwnedLock, TooEarly, lock_life_s


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
            self.owner, self.expires_at = "", now + LIVE_S if self.fields else 0.0
        self.expires_at = max(self.expires_at, until)


class LockTable:
    """Used under the lock of the state."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._look_at = 1_000  # so many locks are looked through for expired ones

    def get(self, name: str) -> _Held | None:
        held = self._held.get(name)
        return held if held is not None and held.expires_at > self._clock() else None

    def names(self) -> list[str]:
        return [name for name in self._held if self.get(name) is not None]

    def claim(self, number: int, push: Push) -> Conflict | None:
        """Takes the lock of a push; a Conflict when another job holds it. Answers the same for one push, which is known
        by its number, however often it is asked."""
        claim = push.tie(LockClaim)
        if claim is None:
            return None
        held = self.get(claim.name)
        if held is not None and held.number == number:
            return None
        life_s = lock_life_s(claim.for_s, push.at, self._clock())
        if held is None or held.holder.jid == claim.instead_of:
            holder = Holder(claim.jid, push.queue, self._clock(), push.at)
            reads = claim.on_conflict == "replace"
            token = push.payload if reads else b""
            self.take(claim.name, holder, max(life_s, LIVE_S) if reads else life_s, token, number)
            return None
        if claim.on_conflict == "replace" and held.token:
            held.fields, held.holder = claim.fields, replace(held.holder, due=push.at)
            held.expires_at = max(held.expires_at, self._clock() + max(life_s, LIVE_S))
            return Conflict(held.holder, "replaced")
        return Conflict(held.holder, "rescheduled" if claim.on_conflict == "reschedule" else "held")

    def token(self, name: str) -> bytes:
        held = self.get(name)
        return b"" if held is None else held.token

    def take(self, name: str, holder: Holder, life_s: float, token: bytes = b"", number: int = 0) -> None:
        self._held[name] = _Held(holder, self._clock() + life_s, token, number=number)
        if len(self._held) >= self._look_at:
            self._held = {name: held for name, held in self._held.items() if held.expires_at > self._clock()}
            self._look_at = max(1_000, 2 * len(self._held))

    def free(self, name: str, jid: str) -> None:
        held = self.get(name)
        if held is not None and held.holder.jid == jid:
            del self._held[name]

    def free_any(self, name: str) -> bool:
        return self.get(name) is not None and self._held.pop(name, None) is not None

    def keep(self, kept: KeepLock) -> None:
        held = self.get(kept.name)
        if held is not None and held.holder.jid == kept.jid:
            held.last(self._clock() + kept.life_s, self._clock())
            held.holder = replace(held.holder, due=kept.due)

    def own(self, lock: OwnedLock) -> str:
        held = self.get(lock.name)
        if held is None or held.holder.jid != lock.jid:
            return "" if held is None else held.holder.jid
        held.end_with(lock.owner)
        return ""

    def disown(self, lock: OwnedLock) -> None:
        held = self.get(lock.name)
        if held is not None and held.holder.jid == lock.jid and held.owner == lock.owner:
            held.last(self._clock() + lock.for_s, self._clock())

    def begin(self, begin: Begin) -> Begun | TooEarly | Holder:
        held = self.get(begin.name)
        if held is not None and held.holder.jid not in (begin.jid, begin.instead_of):
            return held.holder if begin.take else Begun()
        if held is None or held.holder.jid != begin.jid:
            if begin.take and not begin.free:
                self.take(begin.name, Holder(begin.jid, begin.queue, self._clock()), begin.for_s)
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
        if held.token and held.fields and due is not None and due > self._clock():
            return TooEarly(due)
        if begin.looks:
            return Begun(held.fields)
        held.token = b""
        if not held.fields:
            held.expires_at = self._clock() + begin.for_s
        held.end_with(begin.owner)
        return Begun(held.fields)
