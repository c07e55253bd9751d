"""The contract `Admin` on Redis. Each kind of key has a module of its own."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Sequence

from goworkers_py.brokers.contracts.admin import Admin, Checks, Glance, Place, PlacedJobs
from goworkers_py.brokers.contracts.fleet import (
    Day,
    InProgressJob,
    LeaseOwner,
    LineStats,
    Process,
    QueueStats,
    Running,
    ServerFacts,
    Stats,
)
from goworkers_py.brokers.redis.admin.audit_list import AuditList
from goworkers_py.brokers.redis.admin.line_jobs import LineJobs
from goworkers_py.brokers.redis.admin.queue_jobs import QueueJobs
from goworkers_py.brokers.redis.admin.queue_list import QueueList
from goworkers_py.brokers.redis.admin.set_jobs import SetJobs
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.server_info import facts_of
from goworkers_py.brokers.redis.fleet.day_counts import read_days
from goworkers_py.brokers.redis.fleet.owner_list import OwnerList
from goworkers_py.brokers.redis.fleet.process_list import ProcessList
from goworkers_py.brokers.redis.fleet.stats import read_stats
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import types_of_shared
from goworkers_py.brokers.redis.queues.lines import outboxes, parking
from goworkers_py.brokers.redis.server.checks import ServerChecks
from goworkers_py.brokers.redis.server.damage import counters_without_number, of_another_type
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.command import Command
from goworkers_py.core.errors import ArgumentError, BrokerRefused
from goworkers_py.core.job_state import JobState
from goworkers_py.features.parts import FollowMove


class RedisAdmin(Admin):
    def __init__(
        self, connections: Connections, keys: Keys, dead_limits: tuple[int, float], follow: Sequence[FollowMove] = ()
    ) -> None:
        """`dead_limits`: how many jobs the dead set keeps at most, and for how many seconds. `follow`: of features,
        for jobs that have not ended before."""
        self._connections = connections
        self._keys = keys
        self._dead_limits = dead_limits
        self._follow = follow
        self._queues = QueueList(connections, keys)
        self._lines = parking(connections, keys, dead_limits, follow)
        self._outboxes = outboxes(connections, keys, dead_limits)
        self._owners = OwnerList(connections, keys)
        self._processes = ProcessList(connections, keys)
        self._audit = AuditList(connections, keys)

    # --- queues

    def queues(self) -> list[QueueStats]:
        return self._queues.all()

    def queue(self, name: str) -> QueueStats | None:
        return self._queues.one(name)

    def pause(self, queue: str) -> bool:
        return self._queues.pause(queue)

    def resume(self, queue: str) -> bool:
        return self._queues.resume(queue)

    # --- jobs

    def jobs_in(self, place: Place, glance: Glance | None = None) -> PlacedJobs:
        if place.state is JobState.WAITING:
            return QueueJobs(self._connections, self._keys, place.queue, self._follow, glance)
        if place.state is JobState.IN_PROGRESS:
            raise ArgumentError("jobs in progress cannot be listed as a place: call in_progress")
        if place.state is JobState.PARKED:
            return LineJobs(self._lines, place.state, glance)
        if place.state is JobState.OUTBOX:
            return LineJobs(self._outboxes, place.state, glance)
        return SetJobs(self._connections, self._keys, place.state, self._dead_limits, self._follow, glance)

    def lines(self) -> list[LineStats]:
        return self._lines.all()

    def outboxes(self) -> list[LineStats]:
        return self._outboxes.all()

    # --- the fleet

    def stats(self) -> Stats:
        return read_stats(self._connections, self._keys, self._queues, self._lines, self._outboxes)

    def history(self, days: int) -> list[Day]:
        today = datetime.datetime.fromtimestamp(self.now(), datetime.timezone.utc).date()
        wanted = [today - datetime.timedelta(days=ago) for ago in range(days)]
        return list(read_days(self._connections, self._keys, wanted))

    def owners(self) -> list[LeaseOwner]:
        return self._owners.all()

    def dead_holders(self, owners: Collection[str]) -> set[str]:
        return self._owners.dead_holders(owners)

    def in_progress(self, queue: str = "", identity: str = "") -> Iterator[InProgressJob]:
        yield from self._owners.in_progress(self.running(), queue, identity)

    def held(self, owners: Collection[LeaseOwner], queue: str | None = None) -> int:
        return self._owners.held(owners, queue)

    def processes(self) -> list[Process]:
        return self._processes.all()

    def running(self) -> list[Running]:
        return self._processes.running()

    def ask(self, identities: Sequence[str], command: Command) -> None:
        self._processes.ask(identities, command)

    def note_action(self, entry: str) -> None:
        self._audit.add(entry)

    def actions(self, before: str, limit: int) -> Sequence[AuditEntry]:
        return self._audit.before(before, limit)

    # --- the server

    def now(self) -> float:
        seconds, microseconds = self._connections.call("TIME")
        return int(seconds) + int(microseconds) / 1e6

    def servers(self) -> list[ServerFacts]:
        return facts_of(self._connections)

    def damage(self) -> list[str]:
        counters = counters_without_number(self._connections, self._keys)
        problems = [f"key {key} holds no number" for key in counters]
        try:
            return of_another_type(self._connections, types_of_shared(self._keys)) + problems
        except BrokerRefused:  # the access rules do not allow TYPE
            return problems

    def damaged_queues(self) -> list[str]:
        return self._queues.damaged()

    def checks(self, queues: Collection[str]) -> Checks:
        return ServerChecks(self._connections, self._keys, self._queues).by_name(queues)
