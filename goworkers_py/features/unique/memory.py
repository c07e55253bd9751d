"""The locks of unique jobs, for those that begin, and for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.brokers.memory.state import State
from goworkers_py.core.holder import Holder
from goworkers_py.features.unique import contract as locks
from goworkers_py.features.unique.lock import Begin, Begun, LockEntry, OwnedLock, TooEarly


class MemoryLocks(locks.Locks):
    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.locks
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
