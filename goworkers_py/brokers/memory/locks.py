"""The locks of unique jobs, for those that begin, and for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts import locks
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.effect import KeepLock
from goworkers_py.core.lock import Begin, Begun, Holder, LockEntry, TooEarly


class MemoryLocks(locks.Locks):
    def __init__(self, state: State) -> None:
        self._table = state.locks
        self._lock = state.lock

    def begin(self, begin: Begin) -> Begun | TooEarly | Holder:
        with self._lock:
            return self._table.begin(begin)

    def keep(self, locks: Sequence[KeepLock]) -> None:
        with self._lock:
            for one in locks:
                held = self._table.get(one.name)
                if held is not None:
                    self._table.keep(KeepLock(one.jid, one.name, one.life_s, held.holder.due))

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
            return LockEntry(name, held.holder, held.expires_at, replaced and not held.token, replaced)

    def free(self, name: str) -> bool:
        with self._lock:
            return self._table.free_any(name)
