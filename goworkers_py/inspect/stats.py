"""The numbers of everything at once."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass
from typing import Any

from goworkers_py.connection import Connections
from goworkers_py.errors import BrokerError, UnreadablePayload
from goworkers_py.keys import Keys
from goworkers_py.message import Message


@dataclass(frozen=True, slots=True)
class QueueStats:
    name: str
    size: int
    latency_s: float  # how long the next job to run has waited


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

    def stats(self) -> Stats:
        keys = self._keys
        processed, failed, scheduled, retries, dead, names, owners = self._connections.exchange(
            [
                ("GET", keys.processed),
                ("GET", keys.failed),
                ("ZCARD", keys.schedule),
                ("ZCARD", keys.retry),
                ("ZCARD", keys.dead),
                ("SMEMBERS", keys.queues),
                ("HGETALL", keys.owners),
            ]
        )
        in_progress, processes = self._owners(owners[::2], owners[1::2])
        return Stats(
            processed=int(processed or 0),
            failed=int(failed or 0),
            scheduled=scheduled,
            retries=retries,
            dead=dead,
            in_progress=in_progress,
            processes=processes,
            queues=self._queues(sorted(name.decode("utf-8", "replace") for name in names)),
        )

    def _queues(self, names: list[str]) -> list[QueueStats]:
        commands = [(command, self._keys.queue(name), *rest) for name in names for command, rest in _SIZE_AND_NEXT]
        replies = self._connections.answers(commands)
        return [
            QueueStats(name, size, latency_s(oldest, name))
            for name, size, oldest in zip(names, replies[::2], replies[1::2], strict=True)
            if size is not None
        ]

    def _owners(self, identities: list[bytes], entries: list[bytes]) -> tuple[int, int]:
        """How many jobs are in progress, and how many processes live."""
        owners = {
            identity.decode(): json.loads(entry)["queues"] for identity, entry in zip(identities, entries, strict=True)
        }
        lists = [self._keys.inprogress(queue, owner) for owner, queues in owners.items() for queue in queues]
        replies = self._connections.answers(
            [*(("LLEN", key) for key in lists), *(("EXISTS", self._keys.lease(owner)) for owner in owners)]
        )
        return sum(filter(None, replies[: len(lists)])), sum(replies[len(lists) :])


_SIZE_AND_NEXT = (("LLEN", ()), ("LINDEX", (-1,)))


def latency_s(oldest: bytes | None, queue: str) -> float:
    """How long a queue's next job has waited."""
    if oldest is None:
        return 0.0
    try:
        message = Message(oldest, queue)
    except UnreadablePayload:
        return 0.0
    since = message.enqueued_at or message.created_at
    return max(0.0, time.time() - since) if since else 0.0
