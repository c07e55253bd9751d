"""The processes of the fleet, of whatever language: their entries and their running jobs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import simplejson

from goworkers_py.brokers.contracts.fleet import Process, Running, ThreadPool
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.control import WORDS
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.membership import members
from goworkers_py.core.command import Command
from goworkers_py.wire.message import whole_number
from goworkers_py.wire.needs import is_version
from goworkers_py.wire.process_record import OURS, config_of
from goworkers_py.wire.stored_job import StoredJob

ASKED_FOR_S = 60  # a command expires after this time, as on Sidekiq's page: the process did not beat
_WORDS = {command: word for word, command in WORDS.items()}

_FIELDS = ("info", "busy", "concurrency", "beat", "quiet", "rss", "standby", "cpu_share")
MOST_CORES = 100_000  # more in `cpu_share` is damage
STANDBY_SHOWN_FOR_S = 30  # after its last report: a process that stands by has no lease


class ProcessList:
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def all(self) -> list[Process]:
        """The living processes. A process of Sidekiq is listed for up to a minute after its death."""
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
            if told is not None and told[0] is not None  # else its hash has expired
        ]
        # The hash of our own killed process exists for some minutes; its lease is gone earlier.
        now = time.time()
        return [process for process, lease in found if lease or _is_shown_without_lease(process, now)]

    def running(self) -> list[Running]:
        """The longest running first."""
        identities = members(self._connections, self._keys)
        # A process of Sidekiq writes one of the two keys, by its version; ours write both.
        replies = self._connections.answers([("HVALS", key) for one in identities for key in self._keys.works(one)])
        found = [
            _running(identity, told)
            for identity, new, old in zip(identities, replies[::2], replies[1::2], strict=True)
            for told in new or old or ()
        ]
        return sorted(found, key=lambda one: one.since)

    def ask(self, identities: Sequence[str], command: Command) -> None:
        """Each process reads the command after its next beat, within five to ten seconds."""
        for identity in identities:
            key = self._keys.signals(identity)
            self._connections.transaction([("LPUSH", key, _WORDS[command]), ("EXPIRE", key, ASKED_FOR_S)])


def _process(identity: str, told: Mapping[str, bytes | None]) -> Process:
    info = _object(told["info"])
    queues = info.get("queues")
    return Process(
        identity=identity,
        version=_text(info.get("version")),
        tag=_text(info.get("tag")),
        queues=[str(queue) for queue in queues] if isinstance(queues, list) else [],
        # Sidekiq 8.1.2 and later have it in a field of its own, earlier versions in `info`.
        concurrency=int(number(told["concurrency"])) or whole_number(info.get("concurrency")) or 0,
        pools=_pools(info.get("capsules")),
        busy=int(number(told["busy"])),
        quiet=told["quiet"] in (b"true", b"1"),
        embedded=info.get("embedded") is True,
        standby=_text((told["standby"] or b"").decode("utf-8", "replace")),
        rss_kb=int(number(told["rss"])),
        started_at=number(info.get("started_at")),
        beat=number(told["beat"]),
        commands=_commands(info.get("pyworkers")),
        config=config_of(info.get("pyworkers")),
        partition=_partition(info.get("pyworkers")),
        cpu_share=_share(told["cpu_share"]),
    )


def _is_shown_without_lease(process: Process, now: float) -> bool:
    if not process.version.startswith(OURS):
        return True
    return bool(process.standby) and now - process.beat < STANDBY_SHOWN_FOR_S


def _running(identity: str, told: bytes) -> Running:
    work = _object(told)
    payload, queue = work.get("payload"), _text(work.get("queue"))
    # Before Sidekiq 6.0.2 the payload was a JSON object, not a text.
    text = payload if isinstance(payload, str) else simplejson.dumps(payload, allow_nan=True)
    return Running(identity, queue, StoredJob(text.encode("utf-8", "replace"), queue), number(work.get("run_at")))


def _pools(capsules: object) -> list[ThreadPool]:
    several = capsules.values() if isinstance(capsules, dict) else ()
    return [
        ThreadPool(tuple(map(str, capsule["weights"])), whole_number(capsule.get("concurrency")) or 0)
        for capsule in several
        if isinstance(capsule, dict) and isinstance(capsule.get("weights"), dict)
    ]


def _share(told: bytes | None) -> float | None:
    try:
        share = float(told or b"")
    except ValueError:
        return None
    return share if 0 <= share < MOST_CORES else None  # also for NaN


def _commands(ours: object) -> list[str]:
    if not isinstance(ours, dict) or not is_version(ours.get("v"), 1) or not isinstance(ours.get("commands"), list):
        return []
    return [str(name) for name in ours["commands"]]


def _partition(ours: object) -> str:
    return _text(ours.get("partition")) if isinstance(ours, dict) and is_version(ours.get("v"), 1) else ""


def _object(told: bytes | None) -> dict[str, Any]:
    try:
        value = simplejson.loads(told or b"{}", allow_nan=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: Any) -> float:
    """The value as a number; 0 when it is none, because other programs write there too."""
    try:
        number = float(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0
