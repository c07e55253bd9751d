"""In-progress lists of go-workers' processes, and marks of deploys for Sidekiq's Metrics page."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from goworkers_py.brokers.contracts.admin import PAGE
from goworkers_py.brokers.contracts.fleet import Leftover
from goworkers_py.brokers.contracts.neighbours import Neighbours
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import as_number, text
from goworkers_py.brokers.redis.driver.scan import keys_like
from goworkers_py.brokers.redis.fleet.membership import members
from goworkers_py.brokers.redis.fleet.owner_entry import read_entries
from goworkers_py.brokers.redis.fleet.process_list import HEARD_OF_S
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine

MARK_LIFE_S = 90 * 86_400  # as Sidekiq's
# A deploy to many machines runs `pyworkers mark` on each; within this time, only the first one makes the mark.
SAME_DEPLOY_S = 60


class RedisNeighbours(Neighbours):
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    # --- go-workers

    def leftovers(self) -> list[Leftover]:
        """Finds the lists with SCAN over all keys, because go-workers does not register them."""
        keys = self._keys
        owners, unreadable = read_entries(self._connections.call("HGETALL", keys.owners))
        ours = {keys.inprogress(queue, identity) for identity, entry in owners.items() for queue in entry.queues}
        unknown = tuple(map(keys.inprogress_of, unreadable))
        others = keys_like(self._connections, keys.any_inprogress) - ours
        found = sorted(key for key in others if not key.endswith(unknown))
        sizes = self._connections.answers([("LLEN", key) for key in found])
        queues = [text(name) for name in self._connections.call("SMEMBERS", keys.queues)]
        return [
            Leftover(*keys.queue_and_owner(key, queues), size) for key, size in zip(found, sizes, strict=True) if size
        ]

    def take_over(self, process: str) -> Iterator[int]:
        """With the same commands that go-workers2 uses for its dead processes."""
        for left in self.leftovers():
            if left.process != process:
                continue
            source, queue = self._keys.inprogress(left.queue, process), self._keys.queue(left.queue)
            self._connections.call("SADD", self._keys.queues, left.queue)
            for start in range(0, left.size, PAGE):
                moves = [("RPOPLPUSH", source, queue)] * min(PAGE, left.size - start)
                yield sum(moved is not None for moved in self._connections.exchange(moves))

    def lives(self, process: str) -> bool:
        """From the heartbeat of go-workers2; a process without one is not known to live. One whose heartbeat has a time
        that is no number may live, so its jobs are not taken."""
        keys, now = self._keys, machine.time()
        entries = [keys.member(identity) for identity in members(self._connections, keys)]
        replies = self._connections.exchange([("HMGET", entry, "beat", "worker_heartbeats") for entry in entries])
        name = keys.inprogress_of(process).encode()
        beats = [beat for beat, lists in replies if beat and name in (lists or b"")]
        return any(now - (as_number(beat) or now) < HEARD_OF_S for beat in beats)

    # --- Sidekiq

    def mark_deploy(self, label: str, at: float) -> str | None:
        keys = self._keys
        minute = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).replace(second=0, microsecond=0)
        field = minute.strftime("%Y-%m-%dT%H:%M:%SZ")
        if self._connections.call("SET", keys.deploy_lock(label), field, "EX", SAME_DEPLOY_S, "NX") is None:
            return label
        marks = keys.marks(minute)
        made, has, _ = self._connections.transaction(
            [("HSETNX", marks, field, label), ("HGET", marks, field), ("EXPIRE", marks, MARK_LIFE_S)]
        )
        return None if made else text(has)
