"""Records of processes that do not run: of pyworkers as its heartbeat writes them, of Sidekiq and of go-workers2."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goworkers_py.brokers.redis.fleet.owner_entry import OwnerEntry
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core.delivery import Delivery
from goworkers_py.features.calls.call import BUILT_IN
from goworkers_py.wire.process_record import MemberPool, ProcessMember, ProcessSnapshot, state, work

KEYS = Keys()
LIVES_S = 3_600


@dataclass(frozen=True)
class ProcessScene:
    """`running`: the payloads of its jobs, by the name of the queue."""

    identity: str  # host:pid:nonce
    pools: Sequence[tuple[str, int, Sequence[str]]]  # name, threads, queues
    running: Sequence[tuple[str, bytes]] = ()
    tag: str = ""
    quiet: bool = False
    rss: int = 180 << 20  # bytes
    since_s: float = 7_200.0  # since its start
    runs_since_s: float = 40.0  # of the oldest of its jobs; the others began later
    version: str = "7.3.2"  # of Sidekiq; empty for one before 7
    dead: bool = False  # killed: its jobs are still in progress, and its lease is over
    more: Mapping[str, Any] = field(default_factory=dict)  # for what a Ruby process says of itself
    cpu_share: float | None = 0.374

    @property
    def queues(self) -> list[str]:
        return [queue for _, _, queues in self.pools for queue in queues]


def python_process(pipe: Any, told: ProcessScene, now: float) -> None:
    """As `membership` and the lease write it with each beat. `pipe` is a client of Redis, or a pipeline of one."""
    pools = [MemberPool(name, threads, dict.fromkeys(queues, 0)) for name, threads, queues in told.pools]
    member = ProcessMember(now - told.since_s, pools, told.tag, [*BUILT_IN])
    running = _deliveries(told, now)
    shown = ProcessSnapshot(running, told.quiet, told.rss, 0.0004, now, embedded=False, cpu_share=told.cpu_share)
    _write(pipe, told, state(told.identity, member, shown), work(running))
    held: dict[str, int] = dict.fromkeys(told.queues, 0)
    for queue, payload in told.running:
        pipe.lpush(KEYS.inprogress(queue, told.identity), payload)
        held[queue] = held.get(queue, 0) + 1
    pipe.hset(KEYS.owners, told.identity, OwnerEntry(held, began=now - told.since_s, heard=now).to_json())
    if not told.dead:
        pipe.set(KEYS.lease(told.identity), 1, ex=LIVES_S)


def ruby_process(pipe: Any, told: ProcessScene, now: float) -> None:
    """As Sidekiq 7 writes it with each beat."""
    host, pid, _ = told.identity.rsplit(":", 2)
    info = {
        "hostname": host, "started_at": now - told.since_s, "pid": int(pid), "tag": told.tag,
        "concurrency": sum(threads for _, threads, _ in told.pools), "queues": told.queues,
        "weights": [dict.fromkeys(queues, 0) for _, _, queues in told.pools], "labels": [],
        "identity": told.identity, "embedded": False, **told.more,
    }  # fmt: skip
    if told.version:
        info["version"] = told.version
    fields = {
        "info": json.dumps(info), "busy": len(told.running), "beat": now, "rtt_us": 412,
        "quiet": "true" if told.quiet else "false", "rss": told.rss >> 10,
    }  # fmt: skip
    _write(pipe, told, fields, work(_deliveries(told, now)))


def go_process(pipe: Any, told: ProcessScene, now: float, name: str = "1") -> None:
    """As go-workers2 writes it, with the lists of what it has fetched. `name` is its option `process`."""
    host, pid, _ = told.identity.rsplit(":", 2)
    info = {
        "hostname": host, "started_at": int(now - told.since_s), "Pid": int(pid), "tag": "default", "concurrency": 2,
        "queues": told.queues, "labels": [], "identity": told.identity,
    }  # fmt: skip
    beats = [
        {"pid": pid, "tid": json.dumps(f"t{number}"), "queue": json.dumps(queue),
         "in_progress_queue": json.dumps(f"{queue}:{name}:inprogress")}
        for queue in told.queues for number in range(2)
    ]  # fmt: skip
    fields = {
        "info": json.dumps(info), "busy": len(told.running), "beat": int(now), "rtt_us": 33, "rss": 0, "quiet": "0",
        "active_manager": "1", "manager_priority": 0, "worker_heartbeats": json.dumps(beats),
    }  # fmt: skip
    _write(pipe, told, fields, {})
    for queue, payload in told.running:
        pipe.lpush(KEYS.inprogress(queue, name), payload)


def _write(pipe: Any, told: ProcessScene, fields: Mapping[str, str | int | float], works: Mapping[str, str]) -> None:
    pipe.sadd(KEYS.processes, told.identity)
    pipe.hset(KEYS.member(told.identity), mapping=dict(fields))
    if works:
        pipe.hset(KEYS.works(told.identity)[0], mapping=dict(works))


def _deliveries(told: ProcessScene, now: float) -> dict[str, Delivery]:
    found = {}
    for number, (queue, payload) in enumerate(told.running):
        delivery = Delivery(payload, queue, told.identity)
        delivery.begun_at = now - told.runs_since_s / (number + 1)
        found[f"worker:{queue}:{number + 1}"] = delivery
    return found
