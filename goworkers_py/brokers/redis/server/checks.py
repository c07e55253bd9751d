"""Checks of the server and of the keys that all queues share, for the doctor. They read and change nothing."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from goworkers_py.brokers.contracts.admin import Advice, Checks
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.server_info import eviction_policy, info_of
from goworkers_py.brokers.redis.fleet.owner_entry import read_entries
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import types_of_shared
from goworkers_py.brokers.redis.server.access import probes
from goworkers_py.brokers.redis.server.damage import counters_without_number, of_another_type
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerRefused

if TYPE_CHECKING:
    from goworkers_py.brokers.redis.admin.queue_list import QueueList

log = logging.getLogger(__name__)

OLDEST_SERVER = (6, 2)
PINGS = 9
SLOW_PING_S = 0.010
MOST_SKEW_S = 2.0
NEARLY_FULL = 0.9

_PROBLEM, _NOTE = True, False
_RULES = "grant what `pyworkers doctor --acl` prints"


class ServerChecks:
    def __init__(self, connections: Connections, keys: Keys, queues: QueueList) -> None:
        self._connections = connections
        self._keys = keys
        self._queues = queues

    def by_name(self, queues: Collection[str]) -> Checks:
        return {
            "version": self._version,
            "eviction": self._eviction,
            "memory": self._memory,
            "persistence": self._persistence,
            "round-trip": self._round_trip,
            "clock": self._clock,
            "permissions": self._permissions,
            "types": lambda: self._types(queues),
            "owners": self._owner_entries,
        }

    def _version(self) -> Iterator[Advice]:
        info = info_of(self._connections, "server")
        version_string = info.get("valkey_version") or info.get("redis_version", "")
        version = tuple(int(part) for part in re.findall(r"\d+", version_string)[:2])
        if version and version < OLDEST_SERVER:
            yield Advice(_PROBLEM, f"the server has version {version_string}", "upgrade it to 6.2 or later")

    def _eviction(self) -> Iterator[Advice]:
        policy = eviction_policy(self._connections)
        if policy != "noeviction":
            what = f"the server evicts jobs when its memory is full (maxmemory-policy {policy})"
            yield Advice(_PROBLEM, what, "set maxmemory-policy noeviction")

    def _memory(self) -> Iterator[Advice]:
        info = info_of(self._connections, "memory")
        used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))  # 0 is no limit
        if limit and used > NEARLY_FULL * limit:
            what = f"the server uses {used / limit:,.0%} of its memory (maxmemory {limit:,} bytes)"
            what += ": a full server refuses pushes"
            yield Advice(_PROBLEM, what, "raise maxmemory; `pyworkers stats` shows where jobs wait")

    def _persistence(self) -> Iterator[Advice]:
        info = info_of(self._connections, "persistence")
        for name in ("rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"):
            if info.get(name, "ok") != "ok":
                what = f"the server cannot write its disk ({name} is {info[name]})"
                yield Advice(_PROBLEM, what, "see the server's log")
        if info.get("aof_enabled") == "1":
            return
        if self._snapshots():
            what = "the server only takes snapshots: when it crashes, all jobs since the last one are lost"
            yield Advice(_NOTE, what, "set appendonly yes")
        else:
            what = "the server keeps nothing on disk: when it ends, all jobs are lost"
            yield Advice(_PROBLEM, what, "set appendonly yes")

    def _snapshots(self) -> bool:
        try:
            return bool(self._connections.call("CONFIG", "GET", "save")[1])
        except BrokerRefused:
            return True  # a hosted server does not answer CONFIG

    def _round_trip(self) -> Iterator[Advice]:
        median_s = sorted(self._timed_ping() for _ in range(PINGS))[PINGS // 2]
        if median_s > SLOW_PING_S:
            what = f"the server takes {median_s * 1_000:.0f} ms to answer"
            yield Advice(_NOTE, what, "run the processes nearer to the server, or give the server less to do")

    def _timed_ping(self) -> float:
        before = machine.perf_counter()
        self._connections.call("PING")
        return machine.perf_counter() - before

    def _clock(self) -> Iterator[Advice]:
        asked_at = machine.time()
        seconds, microseconds = self._connections.call("TIME")
        skew_s = (asked_at + machine.time()) / 2 - (int(seconds) + int(microseconds) / 1e6)
        if abs(skew_s) > MOST_SKEW_S:
            what = f"this machine's clock is {skew_s:.1f} s off the server's"
            yield Advice(_PROBLEM, what, "set both clocks by NTP")

    def _permissions(self) -> Iterator[Advice]:
        try:
            refused = self._connections.refusals(probes(self._keys))
        except BrokerRefused as error:
            yield Advice(_PROBLEM, f"transactions are refused: {error}", _RULES)
            return
        for command, why in refused:
            yield Advice(_PROBLEM, f"{' '.join(map(str, command[:2]))} is refused: {why}", _RULES)

    def _types(self, queues: Collection[str]) -> Iterator[Advice]:
        todo = "some other program wrote it: rename or delete it"
        for what in of_another_type(self._connections, types_of_shared(self._keys)) + self._queues.damaged(queues):
            yield Advice(_PROBLEM, what, todo)
        for key in counters_without_number(self._connections, self._keys):
            yield Advice(_PROBLEM, f"key {key} holds no number, so nothing is counted there", "delete it")

    def _owner_entries(self) -> Iterator[Advice]:
        """Entries that a later release wrote, or another program. Their jobs are not recovered by this release."""
        owners = self._keys.owners
        for identity in sorted(read_entries(self._connections.call("HGETALL", owners))[1]):
            what = f"this release cannot read the entry of {identity} in {owners}, and recovers no job of that process"
            todo = f"upgrade this release; if that process has ended for good: redis-cli HDEL {owners} {identity}"
            yield Advice(_PROBLEM, what, todo)
