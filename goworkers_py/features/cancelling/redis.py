"""Tombstones in Redis: a hash, and a channel on which new ones are told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.brokers.redis.driver.best_effort import BestEffort
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Script, text
from goworkers_py.brokers.redis.driver.listener import Listener
from goworkers_py.brokers.redis.driver.replies import one_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.core.effect import KEPT_S
from goworkers_py.features.cancelling.contract import Cancels, Changed
from goworkers_py.features.cancelling.tombstone import Tombstone
from goworkers_py.features.iteration.cursor import CURSOR_LIFE_S
from goworkers_py.features.iteration.redis_part import iteration_key
from goworkers_py.wire.needs import is_version

V = 1
_TOMBSTONE = Script(LUA / "tombstone.lua", one_of(int))


class RedisCancels(Cancels):
    def __init__(self, connections: Connections, keys: Keys, listener: Listener) -> None:
        self._connections = connections
        self._keys = keys
        self._listener = listener
        self._try = BestEffort("jobs that Sidekiq has cancelled cannot be read")

    def ask(self, jid: str, retry: bool) -> object:
        tombstone = written_tombstone(jid, retry)
        laid = self._connections.script(_TOMBSTONE, self._names(jid), ("ask", jid, tombstone, int(retry), KEPT_S))
        return tombstone if laid else None

    def withdraw(self, jid: str, asked: object) -> None:
        if isinstance(asked, str):
            self._connections.script(_TOMBSTONE, self._names(jid), ("withdraw", jid, asked))

    def _names(self, jid: str) -> list[str]:
        keys = self._keys
        return [keys.tombstones, keys.tombstones_version, keys.cancelled(jid)]

    def answer(self, jid: str) -> str | None:
        answer = self._connections.call("GET", self._keys.cancelled(jid))
        return None if answer is None else text(answer)

    def watch(self, jid: str, changed: Callable[[str], None]) -> Callable[[], None]:
        return self._listener.listen(self._keys.cancelled(jid), lambda message: changed(text(message)))

    def stands(self, jid: str) -> bool:
        return bool(self._connections.call("HEXISTS", self._keys.tombstones, jid))

    def all(self, version: str) -> tuple[str, Mapping[str, Tombstone]] | None:
        now = text(self._connections.call("GET", self._keys.tombstones_version) or b"")
        if now == version:
            return None
        # Read after the version: a tombstone that comes in between is read twice, and none is missed.
        flat = self._connections.call("HGETALL", self._keys.tombstones)
        records = {
            name: record for name, raw in zip(flat[::2], flat[1::2], strict=True) if (record := _read(raw)) is not None
        }
        self._forget([name for name, record in records.items() if record["at"] < machine.time() - KEPT_S])
        return now, {
            record["jid"]: Tombstone(record["retry"], record["at"], record.get("many") is True)
            for record in records.values()
        }

    def _forget(self, old: Sequence[bytes]) -> None:
        if old:
            self._connections.call("HDEL", self._keys.tombstones, *old)

    def listen(self, changed: Changed) -> Callable[[], None]:
        return self._listener.listen(self._keys.tombstones, lambda message: changed())

    def elsewhere(self, jids: Collection[str], shown: Collection[str] = ()) -> set[str]:
        """Sidekiq cancels a job in the hash in which an iterable job keeps its place, sidekiq-status in its own."""
        cancelled = self._holding([(jid, iteration_key(self._keys, jid)) for jid in jids], "cancelled")
        stopped = self._holding([(jid, self._keys.status(jid)) for jid in shown], "stop")
        return {*cancelled, *(jid for jid, flag in stopped.items() if flag == b"true")}

    def ask_sidekiq(self, jid: str) -> bool:
        """Sidekiq stumbles over a hash with `cancelled` alone, so the other fields are written where it has not written
        them yet."""
        key = iteration_key(self._keys, jid)
        runs, *_ = self._connections.transaction(
            [
                ("HGET", key, "ex"),
                ("HSETNX", key, "ex", 0),
                ("HSETNX", key, "c", "null"),
                ("HSETNX", key, "rt", 0),
                ("HSETNX", key, "cancelled", int(machine.time())),
                ("EXPIRE", key, CURSOR_LIFE_S),
            ]
        )
        return runs not in (None, b"0")

    def _holding(self, keys: Sequence[tuple[str, str]], field: str) -> dict[str, bytes]:
        """The field of the hash of each job, where it has one."""
        replies: list[bytes | None] = []
        if keys:
            self._try(lambda: replies.extend(self._connections.answers([("HGET", key, field) for _, key in keys])))
        return {jid: reply for (jid, _), reply in zip(keys, replies, strict=False) if reply is not None}


def tombstone_of_many(name: str) -> str:
    """Of a batch or a chain."""
    return written_tombstone(name, retry=False, many=True)


def written_tombstone(jid: str, retry: bool, **more: bool) -> str:
    record = {"v": V, "jid": jid, "retry": retry, "at": machine.time(), "by": machine.token_hex(4), **more}
    return simplejson.dumps(record)


def _read(raw: bytes) -> dict[str, Any] | None:
    """None for what is no tombstone that this release can read."""
    with suppress(Exception):  # other programs write here too
        record: dict[str, Any] = simplejson.loads(raw)
        kinds = isinstance(record["jid"], str), isinstance(record["retry"], bool), isinstance(record["at"], float)
        if is_version(record["v"], V) and all(kinds):
            return record
    return None
