"""What lies in in-progress lists, who answers for it, and what go-workers' processes left in theirs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from goworkers_py.admin.entries import PAGE, Entry
from goworkers_py.admin.owners import Owner, all_owners, unreadable_owners
from goworkers_py.admin.processes import Processes
from goworkers_py.brokers.redis.connection import Connections, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.membership import members

HEARD_OF_S = 60


@dataclass(frozen=True, slots=True)
class InProgressJob:
    """A job in somebody's list."""

    owner: Owner
    queue: str
    entry: Entry
    running_since: float | None  # None: it waits there, or its owner does not say

    @property
    def as_json(self) -> str:
        told = {"owner": self.owner.identity, "alive": self.owner.alive, "queue": self.queue}
        return f"{json.dumps(told | {'running_since': self.running_since})[:-1]},{self.entry.as_json[1:]}"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A list that no process of ours answers for: go-workers', called after its queue and its process."""

    queue: str
    process: str
    size: int


class InProgress:
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def owners(self) -> list[Owner]:
        return all_owners(self._connections, self._keys)

    def jobs(self) -> Iterator[InProgressJob]:
        since = {(one.identity, one.entry.raw): one.since for one in Processes(self._connections, self._keys).running()}
        for owner in self.owners():
            for queue in owner.queues:
                for raw in self._listed(self._keys.inprogress(queue, owner.identity)):
                    yield InProgressJob(owner, queue, Entry(raw, queue), since.get((owner.identity, raw)))

    def _listed(self, key: str) -> Iterator[bytes]:
        """Oldest first. What comes and goes meanwhile may be missed: these lists are short and lively."""
        start = 1
        while listed := self._connections.answers([("LRANGE", key, -start - PAGE + 1, -start)])[0]:
            yield from reversed(listed)
            start += PAGE

    def held(self, owner: Owner) -> int:
        """How many jobs lie in its lists."""
        lists = [("LLEN", self._keys.inprogress(queue, owner.identity)) for queue in owner.queues]
        return sum(filter(None, self._connections.answers(lists)))

    def held_of(self, queue: str, owners: Iterable[Owner]) -> int:
        """How many jobs of a queue lie in the lists of these processes."""
        lists = [("LLEN", self._keys.inprogress(queue, owner.identity)) for owner in owners]
        return sum(filter(None, self._connections.answers(lists)))

    # --- go-workers

    def leftovers(self) -> list[Leftover]:
        """Found by their names, because go-workers registers them nowhere: this looks through all keys."""
        keys = self._keys
        ours = {keys.inprogress(queue, owner.identity) for owner in self.owners() for queue in owner.queues}
        unknown = tuple(map(keys.inprogress_of, unreadable_owners(self._connections, keys)))
        found = sorted(key for key in self._scan() - ours if not key.endswith(unknown))
        sizes = self._connections.answers([("LLEN", key) for key in found])
        queues = [text(name) for name in self._connections.call("SMEMBERS", keys.queues)]
        return [
            Leftover(*keys.queue_and_owner(key, queues), size) for key, size in zip(found, sizes, strict=True) if size
        ]

    def _scan(self) -> set[str]:
        found: set[str] = set()
        cursor = b"0"
        while True:
            pattern = self._keys.any_inprogress
            cursor, listed = self._connections.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1_000)
            found.update(map(text, listed))
            if cursor == b"0":
                return found

    def take_over(self, process: str) -> Iterator[int]:
        """Moves what a process of go-workers left to the back of its queues, as go-workers2 does for its dead."""
        for left in self.leftovers():
            if left.process != process:
                continue
            source, queue = self._keys.inprogress(left.queue, process), self._keys.queue(left.queue)
            self._connections.call("SADD", self._keys.queues, left.queue)
            for start in range(0, left.size, PAGE):
                moves = [("RPOPLPUSH", source, queue)] * min(PAGE, left.size - start)
                yield sum(moved is not None for moved in self._connections.exchange(moves))

    def lives(self, process: str) -> bool:
        """As far as go-workers2 tells, which it does only where its heartbeat is configured."""
        keys, now = self._keys, time.time()
        entries = [keys.member(one) for one in members(self._connections, keys)]
        told = self._connections.exchange([("HMGET", entry, "beat", "worker_heartbeats") for entry in entries])
        name = keys.inprogress_of(process).encode()
        return any(beat and name in (lists or b"") and now - float(beat) < HEARD_OF_S for beat, lists in told)
