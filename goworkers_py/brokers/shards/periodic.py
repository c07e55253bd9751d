"""The schedules of periodic jobs, each on the home of its name.

A slot is fired once in the fleet, because its schedule is on one shard. While that shard is away the schedule does not
fire. When the shard is back its slots fire late, as after any time without a process: see `catch_up`.
"""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.brokers.contracts.periodic import Periodic
from goworkers_py.brokers.shards.placement import key_of_schedule, placed
from goworkers_py.brokers.shards.shard import Shard
from goworkers_py.brokers.shards.shard_list import ShardList, T, Verb
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.periodic import (
    Firing,
    FiringResult,
    HistoryEntry,
    Registered,
    Release,
    Schedule,
    ScheduleRecord,
    ScheduleState,
)


class ShardedPeriodic(Periodic):
    def __init__(self, shards: ShardList) -> None:
        self._shards = shards

    def register(self, release: Release, schedules: Sequence[Schedule]) -> Registered:
        """Every shard learns the release. The schedules of one that is away are not in force."""
        parts: dict[Shard, list[Schedule]] = {shard: [] for shard in self._shards.all}
        for schedule in schedules:
            parts[self._home(release.source, schedule.name)].append(schedule)
        of = {shard.broker: part for shard, part in parts.items()}
        told = self._shards.each(lambda broker: broker.periodic.register(release, of[broker]))
        newer = next((one.newer for _, one in told if one.newer is not None), None)
        if newer is not None:
            return Registered(told[0][1].now, newer=newer)
        states = {
            schedule.name: state
            for shard, one in told
            for schedule, state in zip(parts[shard], one.states, strict=True)
        }
        away = ScheduleState(0, in_force=False, since=machine.time())
        return Registered(told[0][1].now, tuple(states.get(schedule.name, away) for schedule in schedules))

    def fire(self, release: Release, firing: Firing) -> FiringResult:
        if firing.push is not None:
            key, bound_by = placed(firing.push)
            if bound_by and self._shards.home(key) is not self._home(release.source, firing.name):
                raise BrokerRefused(
                    f"the periodic job {firing.name} cannot be pushed: it has {bound_by}, which lives on another shard "
                    "than its schedule; leave that out of its class, or declare the schedule on one server"
                )
        return self._at_home(release.source, firing.name, lambda broker: broker.periodic.fire(release, firing))

    # --- for people

    def records(self) -> list[ScheduleRecord]:
        told = self._shards.answers(lambda broker: broker.periodic.records())
        return sorted((one for records in told for one in records), key=lambda one: (one.source, one.name))

    def history(self, source: str, name: str) -> list[HistoryEntry]:
        return self._at_home(source, name, lambda broker: broker.periodic.history(source, name))

    def pause(self, source: str, name: str) -> bool:
        return self._at_home(source, name, lambda broker: broker.periodic.pause(source, name))

    def resume(self, source: str, name: str) -> bool:
        return self._at_home(source, name, lambda broker: broker.periodic.resume(source, name))

    def override(self, source: str, name: str, text: bytes) -> bool:
        return self._at_home(source, name, lambda broker: broker.periodic.override(source, name, text))

    def ask(self, source: str, name: str) -> bool:
        return self._at_home(source, name, lambda broker: broker.periodic.ask(source, name))

    def forget(self, source: str, name: str) -> bool:
        return self._at_home(source, name, lambda broker: broker.periodic.forget(source, name))

    def _home(self, source: str, name: str) -> Shard:
        return self._shards.home(key_of_schedule(source, name))

    def _at_home(self, source: str, name: str, verb: Verb[T]) -> T:
        return self._shards.at_home(key_of_schedule(source, name), f"the schedule {name}", verb)
