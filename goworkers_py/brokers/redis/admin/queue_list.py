"""The queues: their names, sizes, pauses, and how long the next job of each has waited."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from goworkers_py.brokers.contracts.fleet import QueueStats
from goworkers_py.brokers.redis.admin.glances import oldest_of
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.damage import of_another_type
from goworkers_py.core import machine
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.levels import base_of, is_paused
from goworkers_py.wire.message import Message


class QueueList:
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def all(self) -> list[QueueStats]:
        """All queues that a job was ever pushed to, and the paused ones."""
        return self.look_at(*self._names())

    def one(self, name: str) -> QueueStats | None:
        """None when no set names the queue and it holds no job. Raises when its key is no list."""
        keys = self._keys
        known, paused, with_base, _ = self._connections.exchange(
            [
                ("SISMEMBER", keys.queues, name),
                ("SISMEMBER", keys.paused, name),
                ("SISMEMBER", keys.paused, base_of(name)),
                ("LLEN", keys.queue(name)),
            ]
        )
        found = self.look_at({name}, {name} if paused or with_base else ())
        return found[0] if found and (known or paused or found[0].size) else None

    def look_at(self, queues: Iterable[str], paused: Collection[str]) -> list[QueueStats]:
        """The stats of these queues, sorted by name."""
        names = sorted(queues)
        found = oldest_of(self._connections, map(self._keys.queue, names))
        return [
            QueueStats(name, size, _latency_s(oldest, name), is_paused(name, paused))
            for name, (size, oldest) in zip(names, found, strict=True)
            if size >= 0  # the key is a list
        ]

    def pause(self, name: str) -> bool:
        """False when it was paused already."""
        return bool(self._connections.call("SADD", self._keys.paused, name))

    def resume(self, name: str) -> bool:
        return bool(self._connections.call("SREM", self._keys.paused, name))

    def damaged(self, others: Collection[str] = ()) -> list[str]:
        """A line for each queue, of `others` too, whose key is no list."""
        known, _ = self._names()
        names = sorted({*known, *others})
        return of_another_type(self._connections, {self._keys.queue(name): "list" for name in names})

    def _names(self) -> tuple[set[str], set[str]]:
        """The names of all queues, and of the paused ones."""
        known, paused = self._connections.exchange([("SMEMBERS", self._keys.queues), ("SMEMBERS", self._keys.paused)])
        return {*map(text, known), *map(text, paused)}, {*map(text, paused)}


def _latency_s(oldest: bytes, queue: str) -> float:
    if not oldest:
        return 0.0
    try:
        message = Message(oldest, queue)
    except UnreadablePayload:
        return 0.0
    since = message.enqueued_at or message.created_at
    return max(0.0, machine.time() - since) if since else 0.0
