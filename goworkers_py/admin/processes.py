"""The processes of the fleet, in whatever language: what they tell of themselves and what they run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goworkers_py.admin.entries import Entry
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.membership import members
from goworkers_py.wire.message import whole_number
from goworkers_py.wire.process_record import OURS

ASKED_FOR_S = 60  # as Sidekiq's own page: who has not obeyed by then never will
QUIET = "TSTP"
STOP = "TERM"
DUMP = "TTIN"

_FIELDS = ("info", "busy", "concurrency", "beat", "quiet", "rss")


@dataclass(frozen=True, slots=True)
class Process:
    identity: str
    version: str  # as it tells it; of Sidekiq before 7 nothing
    tag: str
    queues: list[str]
    concurrency: int
    threads: Mapping[str, int]  # of each queue that has threads of its own
    busy: int
    quiet: bool
    embedded: bool  # part of another program, and not to be asked to stop
    rss_kb: int
    started_at: float
    beat: float


@dataclass(frozen=True, slots=True)
class Running:
    """A job that a process says it runs."""

    identity: str
    queue: str
    entry: Entry
    since: float


class Processes:
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def all(self) -> list[Process]:
        """Those that live; of Sidekiq's also those that did a minute ago."""
        identities = members(self._connections, self._keys)
        replies = self._connections.answers(
            [
                command
                for one in identities
                for command in (("HMGET", self._keys.member(one), *_FIELDS), ("EXISTS", self._keys.lease(one)))
            ]
        )
        found = [
            (_process(identity, dict(zip(_FIELDS, told, strict=True))), lease)
            for identity, told, lease in zip(identities, replies[::2], replies[1::2], strict=True)
            if told is not None and told[0] is not None  # else its entry has run out
        ]
        # The entry of one of ours that was killed stands for a while, when its death is long known.
        return [process for process, lease in found if lease or not process.version.startswith(OURS)]

    def of_go(self, others: Sequence[Process]) -> list[str]:
        """The processes of go-workers2 among others than ours. Only its master branch tells: no release has a
        heartbeat."""
        lists = self._connections.answers(
            [("HGET", self._keys.member(one.identity), "worker_heartbeats") for one in others]
        )
        return [one.identity for one, told in zip(others, lists, strict=True) if told is not None]

    def running(self) -> list[Running]:
        """The oldest first."""
        identities = members(self._connections, self._keys)
        # Sidekiq writes one of the two, by its version, and we write both.
        replies = self._connections.answers([("HVALS", key) for one in identities for key in self._keys.works(one)])
        found = []
        for identity, new, old in zip(identities, replies[::2], replies[1::2], strict=True):
            found += [_running(identity, told) for told in new or old or ()]
        return sorted((one for one in found if one is not None), key=lambda one: one.since)

    def ask(self, identities: Sequence[str], word: str) -> None:
        """They obey within a beat, five to ten seconds."""
        for identity in identities:
            key = self._keys.signals(identity)
            self._connections.transaction([("LPUSH", key, word), ("EXPIRE", key, ASKED_FOR_S)])


def _process(identity: str, told: Mapping[str, bytes | None]) -> Process:
    info = _object(told["info"])
    queues = info.get("queues")
    return Process(
        identity=identity,
        version=_text(info.get("version")),
        tag=_text(info.get("tag")),
        queues=[str(queue) for queue in queues] if isinstance(queues, list) else [],
        # Sidekiq moved it from the one place to the other.
        concurrency=int(number(told["concurrency"])) or whole_number(info.get("concurrency")) or 0,
        threads=_threads(info.get("capsules")),
        busy=int(number(told["busy"])),
        quiet=told["quiet"] in (b"true", b"1"),
        embedded=info.get("embedded") is True,
        rss_kb=int(number(told["rss"])),
        started_at=number(info.get("started_at")),
        beat=number(told["beat"]),
    )


def _running(identity: str, told: bytes) -> Running | None:
    work = _object(told)
    payload, queue = work.get("payload"), _text(work.get("queue"))
    # Before Sidekiq 6.0.2 the payload was an object in the object.
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return Running(identity, queue, Entry(text.encode("utf-8", "replace"), queue), number(work.get("run_at")))


def _threads(capsules: object) -> dict[str, int]:
    threads: dict[str, int] = {}
    for name, capsule in capsules.items() if isinstance(capsules, dict) else ():
        if isinstance(capsule, dict) and capsule.get("weights") == {name: 0}:
            threads[name] = whole_number(capsule.get("concurrency")) or 0
    return threads


def _object(told: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(told or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: Any) -> float:
    """0 for what is none: strangers write there too."""
    try:
        number = float(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0
