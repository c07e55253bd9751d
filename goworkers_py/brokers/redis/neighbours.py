"""In-progress lists of go-workers' processes, and marks of deploys for Sidekiq's Metrics page."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence

from goworkers_py.brokers.contracts.admin import PAGE
from goworkers_py.brokers.contracts.fleet import Leftover
from goworkers_py.brokers.contracts.neighbours import Neighbours
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import as_number, text
from goworkers_py.brokers.redis.fleet.membership import members
from goworkers_py.brokers.redis.fleet.owner_entry import read_entries
from goworkers_py.brokers.redis.fleet.process_list import HEARD_OF_S
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.server.key_patterns import any_between
from goworkers_py.core import machine
from goworkers_py.features.periodic.foreign_schedule import of_sidekiq_cron, of_sidekiq_scheduler
from goworkers_py.features.periodic.schedule import ForeignSchedule

MARK_LIFE_S = 90 * 86_400
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
        found = sorted(key for key in self._scan(keys.any_inprogress) - ours if not key.endswith(unknown))
        sizes = self._connections.answers([("LLEN", key) for key in found])
        queues = [text(name) for name in self._connections.call("SMEMBERS", keys.queues)]
        return [
            Leftover(*keys.queue_and_owner(key, queues), size) for key, size in zip(found, sizes, strict=True) if size
        ]

    def _scan(self, pattern: str) -> set[str]:
        found: set[str] = set()
        cursor = b"0"
        while True:
            cursor, listed = self._connections.call("SCAN", cursor, "MATCH", pattern, "COUNT", PAGE)
            found.update(map(text, listed))
            if cursor == b"0":
                return found

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

    # --- plain lists

    def plain_leftovers(self, pattern: str) -> dict[str, int]:
        before, _, after = pattern.partition("{n}")
        numbered = re.compile(re.escape(before) + r"\d+" + re.escape(after))
        found = sorted(key for key in self._scan(any_between(before, after)) if numbered.fullmatch(key))
        sizes = self._connections.answers([("LLEN", key) for key in found])
        return {key: size for key, size in zip(found, sizes, strict=True) if size}

    def take_back(self, held: str, name: str) -> Iterator[int]:
        """The oldest first, with the command by which the consumers take their own back."""
        for _ in range(0, int(self._connections.call("LLEN", held)), PAGE):
            yield sum(moved is not None for moved in self._connections.exchange([("RPOPLPUSH", held, name)] * PAGE))

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

    def schedules(self) -> list[ForeignSchedule]:
        """Finds the sets of sidekiq-cron with SCAN: each of its namespaces has one."""
        sets = sorted(self._scan(self._keys.any_cron_jobs))
        members = {
            text(name)
            for names in self._connections.answers([("SMEMBERS", key) for key in sets])
            for name in names or ()
        }
        jobs = self._connections.answers([("HGETALL", self._keys.cron_job(member)) for member in sorted(members)])
        cron_jobs = (_by_name(job) for job in jobs if job)
        others, states = map(
            _by_name,
            self._connections.answers([("HGETALL", self._keys.schedules), ("HGETALL", self._keys.schedule_states)]),
        )
        return [
            *map(of_sidekiq_cron, cron_jobs),
            *(of_sidekiq_scheduler(name, job, states.get(name, "")) for name, job in sorted(others.items())),
        ]

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


def _by_name(hash_: Sequence[bytes] | None) -> dict[str, str]:
    """None for a key that is no hash."""
    pairs = hash_ or ()
    return dict(zip(map(text, pairs[::2]), map(text, pairs[1::2]), strict=True))
