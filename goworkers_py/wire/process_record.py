"""What a process tells the fleet of itself, in the words that Sidekiq's pages and go-workers2 read.

The readers of each version look for something else and several of them fail on a field that is missing, so there is
one superset for all: see `info` for what never changes, `state` for what does, `work` for the jobs that run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import simplejson

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.version import __version__
from goworkers_py.wire.message import whole_number
from goworkers_py.wire.payload import encodable, read, write
from goworkers_py.wire.ruby import ruby_flaw

# Pages show little of a job's arguments, and this is written anew with every beat.
LONGEST_PAYLOAD = 100_000
_SHOWN_OF_LONG = ("class", "wrapped", "jid", "queue", "created_at", "enqueued_at")

OURS = "pyworkers "  # how the version of ours begins, and of nobody else's
VERSION = f"{OURS}{__version__}"


@dataclass(frozen=True)
class Member:
    """A process of ours: what it is from its start to its end."""

    started_at: float
    queues: Mapping[str, int]  # with the threads of each
    tag: str = ""

    @property
    def concurrency(self) -> int:
        return sum(self.queues.values())


@dataclass(frozen=True)
class ProcessSnapshot:
    """A process of ours: how it is now."""

    running: Mapping[str, Delivery]
    quiet: bool
    rss: int  # bytes
    round_trip_s: float
    at: float
    embedded: bool  # part of another program, which nobody else may stop


def state(identity: str, member: Member, now: ProcessSnapshot) -> dict[str, str | int]:
    """The process's hash."""
    return {
        "info": info(identity, member, now.embedded),
        "concurrency": member.concurrency,  # Sidekiq 8.1.2 and later look for it here
        "busy": len(now.running),
        "beat": int(now.at),  # go-workers2 refuses a fraction
        "quiet": "true" if now.quiet else "false",
        "rss": now.rss // 1024,
        "rtt_us": int(now.round_trip_s * 1e6),
        # Of go-workers2, whose heartbeat ends for good when it meets a process without it. It takes back the jobs of
        # the dead by this; ours are not its business.
        "worker_heartbeats": "[]",
        # Also of go-workers2: its processes of the highest priority work, the others stand by. Ours come last.
        "manager_priority": -(2**31),
    }


def info(identity: str, member: Member, embedded: bool) -> str:
    hostname, pid, _ = identity.rsplit(":", 2)
    # Each queue has threads of its own here, as a capsule of Sidekiq 7 has.
    weights = [{queue: 0} for queue in member.queues]
    return _json(
        {
            "hostname": hostname,
            "started_at": member.started_at,
            "pid": int(pid),
            "tag": member.tag,
            "concurrency": member.concurrency,
            "queues": list(member.queues),
            "weights": weights,
            "labels": ["python"],
            "identity": identity,
            "version": VERSION,
            "embedded": embedded,
            "capsules": {
                queue: {"concurrency": threads, "mode": "strict", "weights": {queue: 0}}
                for queue, threads in member.queues.items()
            },
        }
    )


def work(running: Mapping[str, Delivery]) -> dict[str, str]:
    """What runs, by thread. Sidekiq 6 parses each payload, so what is no job stays out."""
    told = {}
    for thread, delivery in running.items():
        try:
            payload = shortened(delivery.payload, LONGEST_PAYLOAD)
        except UnreadablePayload:
            continue
        told[thread] = _json({"queue": delivery.queue, "payload": payload.decode(), "run_at": int(delivery.begun_at)})
    return told


def shortened(raw: bytes, longest: int) -> bytes:
    """The payload itself where it is not long and Ruby can read it, else a few of its fields. Raises UnreadablePayload
    for what is no job."""
    fields, flaw = read(raw), ruby_flaw(raw)
    if len(raw) <= longest and not flaw:
        return raw
    shown: dict[str, Any] = {name: fields[name] for name in _SHOWN_OF_LONG if _can_be_shown(fields.get(name))}
    return write(
        {**shown, "args": [f"not shown: {flaw}" if flaw else f"{len(raw):,} bytes, too long to be shown here"]}
    )


def _can_be_shown(value: Any) -> bool:
    if isinstance(value, str):
        return encodable(value)
    return math.isfinite(value) if isinstance(value, float) else whole_number(value) is not None


def _json(value: Any) -> str:
    return simplejson.dumps(value, ensure_ascii=False, separators=(",", ":"))
