"""The locks of unique jobs in Redis, each a hash, see lua/lock.lua."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from goworkers_py.brokers.contracts.locks import Locks
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.exchange import Argument, Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.effect import KeepLock
from goworkers_py.core.lock import Begin, Begun, Holder, LockEntry, TooEarly

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
        arguments = (begin.jid, begin.queue, begin.for_s, begin.instead_of, *flags)
        how, *told = self._connections.script(_BEGIN, (self._keys.lock(begin.name),), arguments)
        if how == b"run":
            return Begun(told[0])
        return TooEarly(float(told[0])) if how == b"early" else holder_of(*map(text, told))

    def keep(self, locks: Sequence[KeepLock]) -> None:
        if locks:
            names = [self._keys.lock(lock.name) for lock in locks]
            told: list[Argument] = [one for lock in locks for one in (lock.jid, lock.life_s)]
            self._connections.script(_KEEP, names, told)

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
            _entry(name, told, now + left / 1_000)
            for name, told, left in zip(names, replies[::2], replies[1::2], strict=True)
        ]


def _entry(name: str, told: Sequence[bytes] | None, expires_at: float) -> LockEntry | None:
    fields = dict(zip(map(text, (told or ())[::2]), map(text, (told or ())[1::2]), strict=True))
    if not fields:
        return None
    if fields.get("v") != "1":
        return LockEntry(name, Holder(""), expires_at)
    holder = holder_of(*(fields.get(part, "") for part in ("jid", "queue", "at", "due")))
    replaced = "fields" in fields
    return LockEntry(name, holder, expires_at, begun=replaced and "token" not in fields, replaced=replaced)


def holder_of(jid: str, queue: str, at: str, due: str) -> Holder:
    return Holder(jid, queue, float(at or 0), float(due) if due else None)
