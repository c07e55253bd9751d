"""The processes of the fleet, of whatever language: their entries and their running jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import simplejson

from goworkers_py.brokers.contracts.fleet import Language, Process, Running, ThreadPool
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import as_number
from goworkers_py.brokers.redis.fleet.control import WORDS
from goworkers_py.brokers.redis.fleet.membership import members
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.core.command import Command
from goworkers_py.wire.message import whole_number
from goworkers_py.wire.needs import is_version
from goworkers_py.wire.payload import is_name
from goworkers_py.wire.process_record import OURS, config_of
from goworkers_py.wire.stored_job import StoredJob

ASKED_FOR_S = 60  # a command expires after this time, as on Sidekiq's page: the process did not beat
_WORDS = {command: word for word, command in WORDS.items()}

_FIELDS = ("info", "busy", "concurrency", "beat", "quiet", "rss", "standby", "cpu_share")
MOST_CORES = 100_000  # more in `cpu_share` is damage
HEARD_OF_S = 60  # after its last beat, a process of go-workers2 counts as dead, as for go-workers2 itself
MOST_OF_A_LIST = 500  # a list holds about as many jobs as its queue has goroutines
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
                for identity in identities
                for command in (
                    ("HMGET", self._keys.member(identity), *_FIELDS),
                    ("EXISTS", self._keys.lease(identity)),
                )
            ]
        )
        found = [
            (_process(identity, dict(zip(_FIELDS, values, strict=True))), lease)
            for identity, values, lease in zip(identities, replies[::2], replies[1::2], strict=True)
            if values is not None and values[0] is not None  # else its hash has expired
        ]
        # The hash of our own killed process exists for some minutes; its lease is gone earlier.
        now = machine.time()
        return [process for process, lease in found if lease or _is_shown_without_lease(process, now)]

    def running(self) -> list[Running]:
        """The longest running first."""
        identities = members(self._connections, self._keys)
        # A process of Sidekiq writes one of the two keys, by its version; ours write both. go-workers2 writes neither.
        replies = self._connections.answers(
            [
                command
                for identity in identities
                for command in (
                    *(("HVALS", key) for key in self._keys.works(identity)),
                    ("HMGET", self._keys.member(identity), "beat", "worker_heartbeats"),
                )
            ]
        )
        found = [
            _running(identity, raw)
            for identity, new, old in zip(identities, replies[::3], replies[1::3], strict=True)
            for raw in new or old or ()
        ]
        found += self._in_go(dict(zip(identities, replies[2::3], strict=True)))
        return sorted(found, key=lambda run: run.order)

    def _in_go(self, beats: Mapping[str, Sequence[bytes | None] | None]) -> list[Running]:
        """The jobs that living processes of go-workers2 have fetched: it tells the names of its lists, and neither
        which jobs its goroutines run nor since when. Of a process without a heartbeat nobody knows that it lives."""
        now = machine.time()
        held = {
            self._keys.own_queue(name): (identity, queue)
            for identity, fields in beats.items()
            if fields is not None and now - as_number(fields[0]) < HEARD_OF_S
            for queue, name in _lists_of_go(fields[1])
        }
        listed = self._connections.answers([("LRANGE", key, -MOST_OF_A_LIST, -1) for key in held])
        return [
            Running(identity, queue, StoredJob(payload, queue), None)
            for (identity, queue), payloads in zip(held.values(), listed, strict=True)
            for payload in reversed(payloads or ())
        ]

    def ask(self, identities: Sequence[str], command: Command) -> None:
        """Each process reads the command after its next beat, within five to ten seconds."""
        for identity in identities:
            key = self._keys.signals(identity)
            self._connections.transaction([("LPUSH", key, _WORDS[command]), ("EXPIRE", key, ASKED_FOR_S)])


def _process(identity: str, fields: Mapping[str, bytes | None]) -> Process:
    info = _object(fields["info"])
    queues, version = info.get("queues"), _text(info.get("version"))
    return Process(
        identity=identity,
        version=version,
        tag=_text(info.get("tag")),
        queues=[str(queue) for queue in queues] if isinstance(queues, list) else [],
        # Sidekiq 8.1.2 and later have it in a field of its own, earlier versions in `info`.
        concurrency=int(as_number(fields["concurrency"])) or whole_number(info.get("concurrency")) or 0,
        pools=_pools(info.get("capsules")),
        busy=int(as_number(fields["busy"])),
        quiet=fields["quiet"] in (b"true", b"1"),
        embedded=info.get("embedded") is True,
        standby=_text((fields["standby"] or b"").decode("utf-8", "replace")),
        rss_kb=int(as_number(fields["rss"])),
        started_at=as_number(info.get("started_at")),
        beat=as_number(fields["beat"]),
        commands=_commands(info.get("pyworkers")),
        config=config_of(info.get("pyworkers")),
        partition=_partition(info.get("pyworkers")),
        cpu_share=_share(fields["cpu_share"]),
        language=_language(version, info),
    )


def _language(version: str, info: Mapping[str, Any]) -> Language:
    """Sidekiq says its version, and before 7.0.2 none; go-workers2 says none, and spells one field in its own way."""
    if version.startswith(OURS):
        return "Python"
    if "Pid" in info:
        return "Go"
    return "Ruby" if version[:1].isdigit() or (not version and "pid" in info) else ""


def _is_shown_without_lease(process: Process, now: float) -> bool:
    if process.language == "Go":  # its hash never expires
        return now - process.beat < HEARD_OF_S
    if process.language != "Python":
        return True
    return bool(process.standby) and now - process.beat < STANDBY_SHOWN_FOR_S


def _running(identity: str, raw: bytes) -> Running:
    work = _object(raw)
    payload, queue = work.get("payload"), _text(work.get("queue"))
    # Before Sidekiq 6.0.2 the payload was a JSON object, not a text.
    text = payload if isinstance(payload, str) else simplejson.dumps(payload, allow_nan=True)
    return Running(identity, queue, StoredJob(text.encode("utf-8", "replace"), queue), as_number(work.get("run_at")))


def _lists_of_go(heartbeats: bytes | None) -> Iterator[tuple[str, str]]:
    """Each queue that a process of go-workers2 works, and the name of its list without the part before. The texts in
    there are JSON once more. Every other program writes no list, or an empty one."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):  # other programs write there too
        for heartbeat in simplejson.loads(heartbeats or b"[]"):
            queue, name = simplejson.loads(heartbeat["queue"]), simplejson.loads(heartbeat["in_progress_queue"])
            if is_name(queue) and is_name(name) and name.startswith(f"{queue}:"):
                yield queue, name


def _pools(capsules: object) -> list[ThreadPool]:
    several = capsules.values() if isinstance(capsules, dict) else ()
    return [
        ThreadPool(tuple(map(str, capsule["weights"])), whole_number(capsule.get("concurrency")) or 0)
        for capsule in several
        if isinstance(capsule, dict) and isinstance(capsule.get("weights"), dict)
    ]


def _share(raw: bytes | None) -> float | None:
    try:
        share = float(raw or b"")
    except ValueError:
        return None
    return share if 0 <= share < MOST_CORES else None  # also for NaN


def _commands(ours: object) -> list[str]:
    if not isinstance(ours, dict) or not is_version(ours.get("v"), 1) or not isinstance(ours.get("commands"), list):
        return []
    return [str(name) for name in ours["commands"]]


def _partition(ours: object) -> str:
    return _text(ours.get("partition")) if isinstance(ours, dict) and is_version(ours.get("v"), 1) else ""


def _object(raw: bytes | None) -> dict[str, Any]:
    try:
        value = simplejson.loads(raw or b"{}", allow_nan=True)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
