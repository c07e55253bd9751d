"""The locks of unique jobs in Redis, each a hash, see lua/fragments/lock.lua."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from operator import attrgetter

from goworkers_py.brokers.redis.driver.begin_calls import BeginCalls
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.core.holder import Holder, holder_of
from goworkers_py.features.unique.contract import Locks
from goworkers_py.features.unique.lock import Begin, Begun, LockEntry, OwnedLock, TooEarly
from goworkers_py.features.unique.redis_part import LUA, V, any_lock, lock_in, lock_key

PAGE = 500

_BEGIN = Script(LUA / "begin_lock.lua", words=())
_KEEP = Script(LUA / "keep_locks.lua", words=())


_owner = attrgetter("owner")


class RedisLocks(Locks):
    def __init__(self, connections: Connections, keys: Keys, begins: BeginCalls) -> None:
        self._connections = connections
        self._keys = keys
        self._begins = begins

    def begin(self, begin: Begin) -> Begun | TooEarly | Holder:
        flags = int(begin.take), int(begin.read), int(begin.free), int(begin.looks)
        raw, held = b"", self._keys.nothing
        if begin.fetched is not None:
            queue, raw = begin.fetched
            held = self._keys.inprogress(queue, begin.owner)
        arguments = begin.jid, begin.queue, begin.for_s, begin.instead_of, *flags, begin.owner, raw
        names = lock_key(self._keys, begin.name), self._keys.gone, held
        how, *details = self._begins.call(_BEGIN, begin.owner, names, arguments)
        if how == b"run":
            return Begun(details[0])
        return TooEarly(float(details[0])) if how == b"early" else holder_of(*map(text, details))

    def own(self, locks: Sequence[OwnedLock]) -> list[str | None]:
        return self._keep("1", locks)

    def disown(self, locks: Sequence[OwnedLock]) -> None:
        self._keep("", locks)

    def _keep(self, runs: str, locks: Sequence[OwnedLock]) -> list[str | None]:
        others: dict[OwnedLock, str | None] = {}
        for owner, ours in itertools.groupby(sorted(locks, key=_owner), _owner):
            left = [*ours]
            while left:
                page, left = left[:PAGE], left[PAGE:]
                names = self._keys.gone, *(lock_key(self._keys, lock.name) for lock in page)
                arguments = [part for lock in page for part in (lock.jid, lock.for_s)]
                answer = self._begins.call(_KEEP, owner, names, (owner, runs, *arguments))
                others.update(zip(page, map(text, answer), strict=True))
        return [others[lock] for lock in locks]

    def entries(self, prefix: str = "") -> Iterator[LockEntry]:
        cursor = b"0"
        while True:
            asked = ("SCAN", cursor, "MATCH", any_lock(self._keys, prefix), "COUNT", PAGE)
            cursor, found = self._connections.call(*asked)
            names = [lock_in(self._keys, text(key)) for key in found]
            yield from (entry for entry in self._read(names) if entry is not None)
            if cursor == b"0":
                return

    def entry(self, name: str) -> LockEntry | None:
        return self._read([name])[0]

    def free(self, name: str) -> bool:
        return bool(self._connections.call("DEL", lock_key(self._keys, name)))

    def _read(self, names: Sequence[str]) -> list[LockEntry | None]:
        keys = [lock_key(self._keys, name) for name in names]
        replies = self._connections.answers([ask for key in keys for ask in (("HGETALL", key), ("PTTL", key))])
        now = machine.time()
        return [
            _entry(name, flat, now + left / 1_000 if left >= 0 else None)
            for name, flat, left in zip(names, replies[::2], replies[1::2], strict=True)
        ]


def _entry(name: str, flat: Sequence[bytes] | None, expires_at: float | None) -> LockEntry | None:
    fields = dict(zip(map(text, (flat or ())[::2]), map(text, (flat or ())[1::2]), strict=True))
    if not fields:
        return None
    if fields.get("v") != V:
        return LockEntry(name, Holder(""), expires_at)
    holder = holder_of(*(fields.get(part, "") for part in ("jid", "queue", "at", "due")))
    replaced = "fields" in fields
    owner = fields.get("owner", "") if expires_at is None else ""
    return LockEntry(name, holder, expires_at, replaced and "token" not in fields, replaced, owner)
