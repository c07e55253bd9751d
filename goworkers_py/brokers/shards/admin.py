"""The contract `Admin` on all shards: their lists as one. A shard that is away is left out, and `damage` says so."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from goworkers_py.brokers.contracts.admin import Admin, Advice, Checks, Glance, Place, PlacedJobs
from goworkers_py.brokers.contracts.fleet import (
    Counts,
    Day,
    InProgressJob,
    LineStats,
    Owner,
    Process,
    QueueStats,
    Running,
    ServerFacts,
    Stats,
)
from goworkers_py.brokers.shards.placed_jobs import ShardedJobs
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList
from goworkers_py.core.command import Command

Row = TypeVar("Row", QueueStats, LineStats)


class ShardedAdmin(Admin):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    # --- queues

    def queues(self) -> list[QueueStats]:
        return _by_name(self._shards.answers(lambda broker: broker.admin.queues()), _one_queue)

    def queue(self, name: str) -> QueueStats | None:
        found = [one for one in self._shards.answers(lambda broker: broker.admin.queue(name)) if one is not None]
        return _one_queue(found) if found else None

    def pause(self, queue: str) -> bool:
        """On every shard, also where one is away: the error says so then, and the others are paused."""
        return any(self._shards.every(lambda broker: broker.admin.pause(queue)))

    def resume(self, queue: str) -> bool:
        return any(self._shards.every(lambda broker: broker.admin.resume(queue)))

    # --- jobs

    def lines(self) -> list[LineStats]:
        return _by_name(self._shards.answers(lambda broker: broker.admin.lines()), _one_line)

    def outboxes(self) -> list[LineStats]:
        return _by_name(self._shards.answers(lambda broker: broker.admin.outboxes()), _one_line)

    def jobs_in(self, place: Place, glance: Glance | None = None) -> PlacedJobs:
        return ShardedJobs(self._shards, place, glance)

    # --- the fleet

    def stats(self) -> Stats:
        return _sum_of(self._shards.answers(lambda broker: broker.admin.stats()))

    def history(self, days: int) -> list[Day]:
        told = self._shards.answers(lambda broker: broker.admin.history(days))
        return [_one_day(several) for several in zip(*told, strict=True)]

    def owners(self) -> list[Owner]:
        """An identity has an entry on each shard; it lives if it does on one of them."""
        by_identity: dict[str, list[Owner]] = {}
        for owners in self._shards.answers(lambda broker: broker.admin.owners()):
            for owner in owners:
                by_identity.setdefault(owner.identity, []).append(owner)
        return [max(several, key=lambda one: one.alive) for several in by_identity.values()]

    def dead_holders(self, owners: Collection[str]) -> set[str]:
        """An owner lives if it does on one of the shards."""
        return set.intersection(*self._shards.answers(lambda broker: broker.admin.dead_holders(owners)))

    def in_progress(self, queue: str = "", identity: str = "") -> Iterator[InProgressJob]:
        return self._shards.steps(lambda broker: broker.admin.in_progress(queue, identity))

    def held(self, owners: Collection[Owner], queue: str | None = None) -> int:
        return sum(self._shards.answers(lambda broker: broker.admin.held(owners, queue)))

    def processes(self) -> list[Process]:
        newest: dict[str, Process] = {}
        for processes in self._shards.answers(lambda broker: broker.admin.processes()):
            for one in processes:
                if one.identity not in newest or one.beat > newest[one.identity].beat:
                    newest[one.identity] = one
        return [newest[identity] for identity in sorted(newest)]

    def running(self) -> list[Running]:
        told = self._shards.answers(lambda broker: broker.admin.running())
        once = {(one.identity, one.since, one.job.payload): one for several in told for one in several}
        return sorted(once.values(), key=lambda one: one.order)

    def ask(self, identities: Sequence[str], command: Command) -> None:
        """Through one shard, so that a process obeys once."""
        serving = next((shard for shard in self._shards.all if not shard.away), self._shards.all[0])
        serving.ask(lambda broker: broker.admin.ask(identities, command))

    # --- the servers

    def now(self) -> float:
        return self._shards.answers(lambda broker: broker.admin.now())[0]

    def servers(self) -> list[ServerFacts]:
        told = self._shards.each(lambda broker: broker.admin.servers())
        return [dataclasses.replace(one, shard=shard.name) for shard, several in told for one in several]

    def damage(self) -> list[str]:
        return self._named(self._shards.each(lambda broker: broker.admin.damage())) + [
            f"shard {shard.name} is away: its jobs are not listed and not counted" for shard in self._away()
        ]

    def damaged_queues(self) -> list[str]:
        return self._named(self._shards.each(lambda broker: broker.admin.damaged_queues()))

    def checks(self, queues: Collection[str]) -> Checks:
        """Each check of every shard, under its one name."""
        told = [(shard, shard.broker.admin.checks(queues)) for shard in self._shards.all]
        names = dict.fromkeys(name for _, checks in told for name in checks)

        def check(name: str) -> Iterator[Advice]:
            for shard, checks in told:
                if not shard.away and name in checks:
                    for advice in checks[name]():
                        yield advice._replace(what=f"shard {shard.name}: {advice.what}")

        return {"shards": self._check_away, **{name: lambda name=name: check(name) for name in names}}  # type: ignore[misc]

    def _check_away(self) -> Iterator[Advice]:
        self._shards.each(lambda broker: broker.transport.paused())
        for shard in self._away():
            yield Advice(True, f"shard {shard.name} is away", "start its server: its jobs wait there")

    def _away(self) -> list[Shard]:
        return [shard for shard in self._shards.all if shard.away]

    @staticmethod
    def _named(told: Sequence[tuple[Shard, list[str]]]) -> list[str]:
        return [f"shard {shard.name}: {line}" for shard, lines in told for line in lines]


def _by_name(told: Sequence[Sequence[Row]], one: Callable[[list[Row]], Row]) -> list[Row]:
    several: dict[str, list[Row]] = {}
    for rows in told:
        for row in rows:
            several.setdefault(row.name, []).append(row)
    return [one(several[name]) for name in sorted(several)]


def _one_queue(found: list[QueueStats]) -> QueueStats:
    paused = any(one.paused for one in found)
    return QueueStats(found[0].name, sum(one.size for one in found), max(one.latency_s for one in found), paused)


def _one_line(found: list[LineStats]) -> LineStats:
    return LineStats(found[0].name, sum(one.size for one in found), max(one.latency_s for one in found))


def _sum_of(told: Sequence[Stats]) -> Stats:
    """The oldest of all where a field tells an age; a process is counted once, though it is on every shard."""
    limits: Counter[str] = Counter()
    for one in told:
        limits.update(one.limits)
    summed = {
        field.name: (max if field.name.startswith("oldest_") or field.name == "processes" else sum)(
            getattr(one, field.name) for one in told
        )
        for field in dataclasses.fields(Stats)
        if field.type == "int"
    }
    return Stats(**summed, queues=_by_name([one.queues for one in told], _one_queue), limits=dict(limits))


def _one_day(several: Sequence[Day]) -> Day:
    queues: dict[str, Counts] = {}
    for day in several:
        for name, counts in day.queues.items():
            known = queues.get(name, Counts())
            queues[name] = Counts(known.processed + counts.processed, known.failed + counts.failed)
    return Day(several[0].date, sum(one.processed for one in several), sum(one.failed for one in several), queues)
