"""The locks of unique jobs in Redis, each a hash, see lua/lock.lua."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.contracts.locks import Locks
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.exchange import Argument, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.lock import Begin, Begun, Holder, LockEntry, OwnedLock, TooEarly

PAGE = 500

_LUA = Path(__file__).parent / "lua"
_BEGIN = Script(_LUA / "begin_lock.lua")
_KEEP = Script(_LUA / "keep_locks.lua")


class RedisLocks(Locks):
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def begin(self, begin: Begin) -> Begun | TooEarly | Holder:
        flags = int(begin.take), int(begin.read), int(begin.free), int(begin.looks)
        arguments = (begin.jid, begin.queue, begin.for_s, begin.instead_of, *flags, begin.owner)
        how, *told = self._connections.script(_BEGIN, (self._keys.lock(begin.name), self._keys.gone), arguments)
        if how == b"run":
            return Begun(told[0])
        return TooEarly(float(told[0])) if how == b"early" else holder_of(*map(text, told))

    def own(self, locks: Sequence[OwnedLock]) -> list[str | None]:
        return self._keep("1", locks)

    def disown(self, locks: Sequence[OwnedLock]) -> None:
        self._keep("", locks)

    def _keep(self, runs: str, locks: Sequence[OwnedLock]) -> list[str | None]:
        others: list[str | None] = []
        for start in range(0, len(locks), PAGE):
            page = locks[start : start + PAGE]
            names = [self._keys.lock(lock.name) for lock in page]
            told: list[Argument] = [one for lock in page for one in (lock.jid, lock.for_s, lock.owner)]
            others += map(text, self._connections.script(_KEEP, (self._keys.gone, *names), (runs, *told)))
        return others

    def entries(self, prefix: str = "") -> Iterator[LockEntry]:
        cursor = b"0"
        while True:
            asked = ("SCAN", cursor, "MATCH", self._keys.locks(prefix), "COUNT", PAGE)
            cursor, found = self._connections.call(*asked)
            names = [self._keys.lock_name(text(key)) for key in found]
            yield from (entry for entry in self._read(names) if entry is not None)
            if cursor == b"0":
                return

    def entry(self, name: str) -> LockEntry | None:
        return self._read([name])[0]

    def free(self, name: str) -> bool:
        return bool(self._connections.call("DEL", self._keys.lock(name)))

    def _read(self, names: Sequence[str]) -> list[LockEntry | None]:
        keys = [self._keys.lock(name) for name in names]
        replies = self._connections.answers([ask for key in keys for ask in (("HGETALL", key), ("PTTL", key))])
        now = time.time()
        return [
            _entry(name, told, now + left / 1_000 if left >= 0 else None)
            for name, told, left in zip(names, replies[::2], replies[1::2], strict=True)
        ]


def _entry(name: str, told: Sequence[bytes] | None, expires_at: float | None) -> LockEntry | None:
    fields = dict(zip(map(text, (told or ())[::2]), map(text, (told or ())[1::2]), strict=True))
    if not fields:
        return None
    if fields.get("v") != "1":
        return LockEntry(name, Holder(""), expires_at)
    holder = holder_of(*(fields.get(part, "") for part in ("jid", "queue", "at", "due")))
    replaced = "fields" in fields
    owner = fields.get("owner", "") if expires_at is None else ""
    return LockEntry(name, holder, expires_at, replaced and "token" not in fields, replaced, owner)


def holder_of(jid: str, queue: str, at: str, due: str) -> Holder:
    return Holder(jid, queue, float(at or 0), float(due) if due else None)
