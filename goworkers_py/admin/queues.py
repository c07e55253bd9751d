"""Queues as people see and change them, while processes work them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from goworkers_py.admin.entries import PAGE, Entry
from goworkers_py.admin.foreign import foreign
from goworkers_py.admin.stats import QueueStats, look_at
from goworkers_py.brokers.redis.connection import Connections, Script, text
from goworkers_py.brokers.redis.keys import Keys

PUSHED_MEANWHILE = 500  # between reading a page and deleting some of it
_PICK = Script(Path(__file__).parents[1] / "brokers/redis/lua/pick.lua")


class Queues:
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def all(self) -> list[QueueStats]:
        """Those that anybody has pushed to, and those that are paused."""
        known, paused = self._names()
        return look_at(self._connections, self._keys, known, paused)

    def one(self, name: str) -> QueueStats | None:
        """None when nobody knows of it. Raises where its key is no list."""
        keys = self._keys
        known, paused, _ = self._connections.exchange(
            [("SISMEMBER", keys.queues, name), ("SISMEMBER", keys.paused, name), ("LLEN", keys.queue(name))]
        )
        found = look_at(self._connections, keys, {name}, {name} if paused else ())
        return found[0] if found and (known or paused or found[0].size) else None

    def foreign(self, others: Iterable[str] = ()) -> list[str]:
        """A line for each queue, of `others` too, whose key is no list."""
        known, _ = self._names()
        return foreign(self._connections, {self._keys.queue(name): "list" for name in sorted({*known, *others})})

    def _names(self) -> tuple[set[str], set[str]]:
        """Of all queues, and of those that are paused."""
        known, paused = self._connections.exchange([("SMEMBERS", self._keys.queues), ("SMEMBERS", self._keys.paused)])
        return {*map(text, known), *map(text, paused)}, {*map(text, paused)}

    def next_jobs(self, name: str, most: int) -> list[Entry]:
        """In the order in which they will run."""
        listed = self._connections.call("LRANGE", self._keys.queue(name), -most, -1) if most else []
        return [Entry(raw, name) for raw in reversed(listed)]

    def pages(self, name: str) -> Iterator[list[Entry]]:
        """All of them, newest first: what is taken meanwhile leaves at the other end and moves none of the rest."""
        start, before = 0, set[bytes]()
        while listed := self._connections.call("LRANGE", self._keys.queue(name), start, start + PAGE - 1):
            start += len(listed)
            # What is pushed meanwhile moves all by as many places, so that some would be seen twice.
            fresh = list(listed)
            while fresh and fresh[0] in before:
                del fresh[0]
            before = set(listed)
            if fresh:
                yield [Entry(raw, name) for raw in fresh]

    def delete(self, name: str, wanted: Callable[[Entry], bool], dry_run: bool) -> Iterator[tuple[int, int]]:
        """Page by page; yields how many jobs were looked at and how many of them deleted, or would be."""
        key, start = self._keys.queue(name), 0
        while listed := self._connections.call("LRANGE", key, start, start + PAGE - 1):
            chosen = [raw for raw in listed if wanted(Entry(raw, name))]
            start += len(listed)
            if dry_run or not chosen:
                yield len(listed), len(chosen)
            else:
                # What was pushed meanwhile has moved them on; those that moved out of sight come with the next page.
                place = (start - len(listed), start + PUSHED_MEANWHILE, secrets.token_hex(16))
                deleted = int(self._connections.script(_PICK, (key, self._keys.nothing), (*place, *chosen)))
                start -= deleted
                yield len(listed), deleted

    def clear(self, name: str) -> int:
        """Returns how many jobs were deleted. As on Sidekiq's page, the queue's name is forgotten too."""
        key = self._keys.queue(name)
        size, _, _ = self._connections.transaction([("LLEN", key), ("UNLINK", key), ("SREM", self._keys.queues, name)])
        return int(size)

    def pause(self, name: str) -> bool:
        """False when it was paused already."""
        return bool(self._connections.call("SADD", self._keys.paused, name))

    def resume(self, name: str) -> bool:
        return bool(self._connections.call("SREM", self._keys.paused, name))
