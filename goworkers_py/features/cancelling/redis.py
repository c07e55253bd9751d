"""Tombstones in Redis: a hash, and a channel on which new ones are told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.brokers.redis.driver.best_effort import BestEffort
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script, text
from goworkers_py.brokers.redis.driver.listener import Listener
from goworkers_py.brokers.redis.driver.replies import one_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import ForeignCancel, foreign_cancels
from goworkers_py.core import machine
from goworkers_py.core.effect import KEPT_S
from goworkers_py.features.cancelling.contract import Cancels, Changed
from goworkers_py.features.cancelling.redis_part import LUA, cancelled_key, tombstones_key, version_key
from goworkers_py.features.cancelling.tombstone import Tombstone
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
        return [tombstones_key(keys), version_key(keys), cancelled_key(keys, jid)]

    def answer(self, jid: str) -> str | None:
        answer = self._connections.call("GET", cancelled_key(self._keys, jid))
        return None if answer is None else text(answer)

    def watch(self, jid: str, changed: Callable[[str], None]) -> Callable[[], None]:
        return self._listener.listen(cancelled_key(self._keys, jid), lambda message: changed(text(message)))

    def stands(self, jid: str) -> bool:
        return bool(self._connections.call("HEXISTS", tombstones_key(self._keys), jid))

    def all(self, version: str) -> tuple[str, Mapping[str, Tombstone]] | None:
        now = text(self._connections.call("GET", version_key(self._keys)) or b"")
        if now == version:
            return None
        # Read after the version: a tombstone that comes in between is read twice, and none is missed.
        flat = self._connections.call("HGETALL", tombstones_key(self._keys))
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
            self._connections.call("HDEL", tombstones_key(self._keys), *old)

    def listen(self, changed: Changed) -> Callable[[], None]:
        return self._listener.listen(tombstones_key(self._keys), lambda message: changed())

    def elsewhere(self, jids: Collection[str], shown: Collection[str] = ()) -> set[str]:
        return {jid for way in foreign_cancels() for jid in self._cancelled(way, shown if way.of_shown else jids)}

    def _cancelled(self, way: ForeignCancel, jids: Collection[str]) -> Iterator[str]:
        replies: list[bytes | None] = []
        if jids:
            asked = [("HGET", way.key(self._keys, jid), way.field) for jid in jids]
            self._try(lambda: replies.extend(self._connections.answers(asked)))
        for jid, reply in zip(jids, replies, strict=False):
            if reply is not None and way.value in (None, reply):
                yield jid

    def ask_sidekiq(self, jid: str) -> bool:
        asks = [way.ask(self._connections, self._keys, jid) for way in foreign_cancels() if way.ask is not None]
        return any(asks)


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
