"""The numbers of everything at once."""

from __future__ import annotations

import functools
import logging
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from goworkers_py.brokers.redis.connection import Connections, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.owner_entry import OwnerEntry, read_entries
from goworkers_py.core.errors import BrokerError, UnreadablePayload
from goworkers_py.wire.message import Message

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueueStats:
    name: str
    size: int
    latency_s: float  # how long the next job to run has waited
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Stats:
    processed: int
    failed: int
    scheduled: int
    retries: int
    dead: int
    in_progress: int
    processes: int
    queues: list[QueueStats]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, told: dict[str, Any]) -> Stats:
        return cls(**{**told, "queues": [QueueStats(**queue) for queue in told["queues"]]})


def for_go_workers(stats: Stats) -> dict[str, Any]:
    """The fields of go-workers' stats page, with its numbers as text where it has text."""
    return {
        "processed": stats.processed,
        "failed": stats.failed,
        "enqueued": {queue.name: str(queue.size) for queue in stats.queues},
        "retries": stats.retries,
        "scheduled": stats.scheduled,
        "dead": stats.dead,
        "in_progress": stats.in_progress,
    }


class Inspector:
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def eviction_policy(self) -> str:
        """What the server does when its memory is full; empty where it does not tell us."""
        try:
            info = self._connections.call("INFO", "memory")
        except BrokerError:
            return ""
        found = re.search(rb"^maxmemory_policy:(\S+)", info, re.MULTILINE)
        return found[1].decode() if found else ""

    def broken_counters(self) -> list[str]:
        """The keys of those that hold no number."""
        keys = (self._keys.processed, self._keys.failed)
        counts = self._connections.answers([("GET", key) for key in keys])
        return [key for key, count in zip(keys, counts, strict=True) if count is not None and as_number(count) is None]

    def stats(self) -> Stats:
        """A key that holds something else than it should hides no other number: it counts as 0."""
        keys = self._keys
        processed, failed, scheduled, retries, dead, names, paused, owners = self._connections.answers(
            [
                ("GET", keys.processed),
                ("GET", keys.failed),
                ("ZCARD", keys.schedule),
                ("ZCARD", keys.retry),
                ("ZCARD", keys.dead),
                ("SMEMBERS", keys.queues),
                ("SMEMBERS", keys.paused),
                ("HGETALL", keys.owners),
            ]
        )
        names, paused = names or (), paused or ()
        in_progress, processes = self._owners(read_entries(owners or ())[0])
        return Stats(
            processed=_count(keys.processed, processed),
            failed=_count(keys.failed, failed),
            scheduled=scheduled or 0,
            retries=retries or 0,
            dead=dead or 0,
            in_progress=in_progress,
            processes=processes,
            queues=look_at(self._connections, keys, map(text, {*names, *paused}), set(map(text, paused))),
        )

    def _owners(self, owners: Mapping[str, OwnerEntry]) -> tuple[int, int]:
        """How many jobs are in progress, and how many processes live."""
        lists = [self._keys.inprogress(queue, owner) for owner, entry in owners.items() for queue in entry.queues]
        replies = self._connections.answers(
            [*(("LLEN", key) for key in lists), *(("EXISTS", self._keys.lease(owner)) for owner in owners)]
        )
        return sum(filter(None, replies[: len(lists)])), sum(replies[len(lists) :])


def _count(key: str, told: bytes | None) -> int:
    count = as_number(told or b"0")
    if count is None:
        _warn_of(key)
    return count or 0


def as_number(told: bytes) -> int | None:
    """As the server reads it, which would count on from there."""
    return int(told) if re.fullmatch(rb"-?\d{1,19}", told) else None


@functools.cache
def _warn_of(key: str) -> None:
    """Once in a process."""
    log.warning("key %s holds no number, and is shown as 0: delete it, or set it to a number", key)


def look_at(connections: Connections, keys: Keys, queues: Iterable[str], paused: Collection[str]) -> list[QueueStats]:
    """By their names."""
    names = sorted(queues)
    lists = [keys.queue(name) for name in names]
    replies = connections.answers([ask for key in lists for ask in (("LLEN", key), ("LINDEX", key, -1))])
    return [
        QueueStats(name, size, _latency_s(oldest, name), name in paused)
        for name, size, oldest in zip(names, replies[::2], replies[1::2], strict=True)
        if size is not None  # the key is no list
    ]


def _latency_s(oldest: bytes | None, queue: str) -> float:
    if oldest is None:
        return 0.0
    try:
        message = Message(oldest, queue)
    except UnreadablePayload:
        return 0.0
    since = message.enqueued_at or message.created_at
    return max(0.0, time.time() - since) if since else 0.0
