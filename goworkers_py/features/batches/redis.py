"""Batches in Redis, each a hash, see lua/fragments/batch.lua."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import simplejson

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, Script, as_number, text
from goworkers_py.brokers.redis.driver.index import last_changed_first
from goworkers_py.brokers.redis.driver.replies import one_of
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.core.effect import KEPT_S
from goworkers_py.features.batches import payload as wire
from goworkers_py.features.batches.batch import EVENTS, RETAIN_S, BatchStatus, Death, Membership, NewBatch
from goworkers_py.features.batches.contract import Batches
from goworkers_py.features.batches.redis_part import LUA, V, batch_key, batch_place, batches_key, deaths_key
from goworkers_py.features.cancelling.redis import tombstone_of_many

# The fields to read. A record also has one for each failure that was not counted.
_FIELDS = (
    "v", "name", "at", "total", "succeeded", "failed", "cancelled", "expired", "holds", "ended", "stopped", "to",
    *EVENTS,
)  # fmt: skip
_STEP = Script(LUA / "step_batch.lua", one_of(int))


class RedisBatches(Batches):
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def open(self, new: NewBatch) -> bool:
        fields: list[Argument] = ["name", new.name, "retain", new.retain_s, "to", simplejson.dumps(new.member.to)]
        for event, callback in new.callbacks.items():
            fields += (event, callback.payload, f"{event}:queue", callback.queue)
        if new.milliseconds:
            fields += ("ms", 1)
        return self._step("open", new.member, new.hold, len(fields), *fields)

    def hold(self, bid: str, hold: str) -> bool:
        return self._step("hold", Membership(bid), hold)

    def let_go(self, bid: str, hold: str, to: Sequence[str] = (), late: bool = False) -> None:
        self._step("let_go", Membership(bid, tuple(to)), hold, int(late))

    def cancel(self, bid: str, to: Sequence[str] = ()) -> bool:
        return self._step("cancel", Membership(bid, tuple(to)), tombstone_of_many(bid), KEPT_S)

    def close(self, bid: str, to: Sequence[str] = (), force: bool = False) -> bool:
        return self._step("close", Membership(bid, tuple(to)), int(force))

    def _step(self, word: str, member: Membership, *options: Argument) -> bool:
        numbers: dict[str, int] = {}
        place = batch_place(member, self._keys, lambda key: numbers.setdefault(key, len(numbers) + 1))
        keys = (self._keys.queues, *numbers)
        return bool(self._connections.script(_STEP, keys, (word, *place, *options)))

    def status(self, bid: str) -> BatchStatus | None:
        return self._read([bid])[0]

    def deaths(self, bid: str) -> list[Death]:
        return wire.deaths(self._connections.call("LRANGE", deaths_key(self._keys, bid), 0, -1))

    def entries(self) -> Iterator[BatchStatus]:
        for bids in last_changed_first(self._connections, batches_key(self._keys)):
            yield from (status for status in self._read(bids) if status is not None)

    def idle(self, count: int) -> list[BatchStatus]:
        """The broker forgets those that have ended well before the others."""
        asked = "ZRANGEBYSCORE", batches_key(self._keys), machine.time() + RETAIN_S, "+inf", "LIMIT", 0, count
        return [status for status in self._read([*map(text, self._connections.call(*asked))]) if status is not None]

    def _read(self, bids: Sequence[str]) -> list[BatchStatus | None]:
        replies = self._connections.answers([("HMGET", batch_key(self._keys, bid), *_FIELDS) for bid in bids])
        return [_status(bid, values or ()) for bid, values in zip(bids, replies, strict=True)]


def _status(bid: str, values: Sequence[bytes | None]) -> BatchStatus | None:
    fields = {name: value for name, value in zip(_FIELDS, values, strict=False) if value is not None}
    if fields.get("v") != V.encode():
        return None

    def count(name: str) -> int:
        return int(as_number(fields.get(name)))

    stopped, ended_at = "stopped" in fields, as_number(fields.get("ended"))
    waiting_for = [] if stopped else [event for event in EVENTS if event in fields]
    return BatchStatus(
        bid,
        text(fields.get("name", b"")),
        as_number(fields.get("at")),
        count("total"),
        count("succeeded"),
        count("failed"),
        count("cancelled"),
        count("expired"),
        max(0, count("holds")),
        ended_at or None,
        stopped,
        waiting_for,
        _names(fields.get("to", b"[]")),
    )


def _names(raw: bytes) -> list[str]:
    try:
        names = simplejson.loads(raw)
    except (ValueError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
