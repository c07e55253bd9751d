"""The record of a process in Redis, in the fields that Sidekiq's pages and go-workers2 read.

Each version of them reads other fields, and several fail on a missing field, so the record has the fields of all.
`info` has the fields that seldom change, `state` those that do, `work` the running jobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import simplejson

from goworkers_py.core.config_in_force import ConfigInForce
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.values import dataclass
from goworkers_py.core.version import __version__
from goworkers_py.wire.message import whole_number
from goworkers_py.wire.payload import encodable, read, write
from goworkers_py.wire.ruby import ruby_flaw

if TYPE_CHECKING:
    from goworkers_py.core.delivery import Delivery

# Pages show little of a job's arguments, and every beat writes the running jobs again.
LONGEST_PAYLOAD = 100_000
_SHOWN_OF_LONG = ("class", "wrapped", "jid", "queue", "created_at", "enqueued_at")

OURS = "pyworkers "  # the version in the record of each pyworkers process begins with it, and in no other program's
VERSION = f"{OURS}{__version__}"


@dataclass(frozen=True)
class MemberPool:
    """A pool of threads: a queue with threads of its own, or several queues that share them."""

    name: str
    threads: int
    weights: Mapping[str, int]  # by queue, in order; all 0: in strict order


@dataclass(frozen=True)
class ProcessMember:
    """The facts about a pyworkers process that seldom change."""

    started_at: float
    pools: Sequence[MemberPool]
    tag: str = ""
    commands: Sequence[str] = ()  # that it answers
    config: ConfigInForce | None = None  # None: it has not started from one in the broker
    partition: str = ""  # that it works, `main` for the one of [pyworkers]; empty: it does not say

    @property
    def queues(self) -> list[str]:
        return [queue for pool in self.pools for queue in pool.weights]

    @property
    def concurrency(self) -> int:
        return sum(pool.threads for pool in self.pools)


@dataclass(frozen=True)
class ProcessSnapshot:
    """The state of a pyworkers process at one time."""

    running: Mapping[str, Delivery]  # by thread
    quiet: bool
    rss: int  # bytes
    round_trip_s: float  # of the last beat
    at: float  # time of this state, epoch seconds
    embedded: bool  # part of another program: the fleet must not stop it
    standby: str = ""  # whom the process stands by for; empty while it works
    cpu_share: float | None = None  # of one core, used since the beat before; None at first


def state(identity: str, member: ProcessMember, now: ProcessSnapshot) -> dict[str, str | int]:
    """The fields of the Redis hash named after the identity."""
    return {
        "info": info(identity, member, now.embedded),
        "concurrency": member.concurrency,  # Sidekiq 8.1.2 and later read it here
        "busy": len(now.running),
        "beat": int(now.at),  # go-workers2 refuses a fraction
        "quiet": "true" if now.quiet else "false",
        "rss": now.rss // 1024,
        "rtt_us": int(now.round_trip_s * 1e6),
        "standby": now.standby,  # since 0.4.0, and read by pyworkers only, as the next one
        "cpu_share": "" if now.cpu_share is None else f"{now.cpu_share:.4f}",
        # For go-workers2: its heartbeat ends for good at a process without this field. It recovers jobs of dead
        # processes by this list; an empty list keeps it from the jobs of pyworkers.
        "worker_heartbeats": "[]",
        # For go-workers2, too: only its processes of the highest priority work, the others stand by. The lowest value
        # keeps a pyworkers process from counting.
        "manager_priority": -(2**31),
    }


def info(identity: str, member: ProcessMember, embedded: bool) -> str:
    hostname, pid, _ = identity.rsplit(":", 2)
    # A pool is like a capsule of Sidekiq 7.
    return _json(
        {
            "hostname": hostname,
            "started_at": member.started_at,
            "pid": int(pid),
            "tag": member.tag,
            "concurrency": member.concurrency,
            "queues": member.queues,
            "weights": [dict(pool.weights) for pool in member.pools],
            "labels": ["python"],
            "identity": identity,
            "version": VERSION,
            "embedded": embedded,
            "pyworkers": _ours(member),  # other programs read the other fields
            "capsules": {
                pool.name: {"concurrency": pool.threads, "mode": _mode(pool), "weights": dict(pool.weights)}
                for pool in member.pools
            },
        }
    )


def _ours(member: ProcessMember) -> dict[str, Any]:
    record: dict[str, Any] = {"v": 1, "commands": [*member.commands]}
    if member.partition:
        record["partition"] = member.partition
    return record if member.config is None else {**record, "config": asdict(member.config)}


def config_of(ours: Any) -> ConfigInForce | None:
    """None for what this release cannot read."""
    with suppress(Exception):  # other programs may write there too
        record = ours["config"]
        waiting = tuple(str(name) for name in record["waiting"])
        digest = str(record.get("digest", ""))
        return ConfigInForce(str(record["name"]), int(record["started"]), int(record["applied"]), waiting, digest)
    return None


def _mode(pool: MemberPool) -> str:
    """As Sidekiq calls it."""
    weights = set(pool.weights.values())
    return "strict" if weights == {0} else "random" if weights == {1} else "weighted"


def work(running: Mapping[str, Delivery]) -> dict[str, str]:
    """The running jobs, by thread. Without payloads that are no job, because Sidekiq 6 parses each payload."""
    works = {}
    for thread, delivery in running.items():
        try:
            message = delivery.message  # read once: its worker's thread sets it to None
            payload = shortened(delivery.payload if message is None else message.raw, LONGEST_PAYLOAD)
        except UnreadablePayload:
            continue
        works[thread] = _json({"queue": delivery.queue, "payload": payload.decode(), "run_at": int(delivery.begun_at)})
    return works


def shortened(raw: bytes, longest: int) -> bytes:
    """The payload itself if it has at most `longest` bytes and Ruby can read it, else a few of its fields. Raises
    UnreadablePayload for bytes that are no job."""
    fields = read(raw)
    flaw = ruby_flaw(raw, fields)
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
