"""The schedules of periodic jobs in Redis, each a hash, see lua/register_schedules.lua and lua/fire_schedule.lua."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, Script, as_number, text
from goworkers_py.brokers.redis.driver.replies import list_of, one_of
from goworkers_py.brokers.redis.driver.scan import keys_like
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.push_arguments import push_arguments
from goworkers_py.core import machine
from goworkers_py.core.holder import holder_of
from goworkers_py.features.periodic.contract import BACK_S, FORGOTTEN_S, LIFE_S, MOST_FIRINGS, STALE_S, Periodic
from goworkers_py.features.periodic.foreign_schedule import of_sidekiq_cron, of_sidekiq_scheduler
from goworkers_py.features.periodic.redis_part import (
    LUA,
    any_cron_jobs,
    cron_job_key,
    history_key,
    schedule_key,
    scheduler_jobs_key,
    scheduler_states_key,
    schedules_key,
    source_key,
)
from goworkers_py.features.periodic.schedule import (
    Fired,
    Firing,
    FiringResult,
    ForeignSchedule,
    HistoryEntry,
    Registered,
    Release,
    Schedule,
    ScheduleRecord,
    ScheduleState,
    Word,
)

_REGISTER = Script(LUA / "register_schedules.lua", list_of(bytes, list))
_FIRE = Script(LUA / "fire_schedule.lua", list_of(bytes))
_CHANGE = Script(LUA / "change_schedule.lua", one_of(int))

_WORDS: dict[str, Word] = {
    "fired": "fired",
    "asked": "asked",
    "skipped": "skipped",
    "replaced": "replaced",
    "missed": "missed",
    "stopped": "stopped",
}


class RedisPeriodic(Periodic):
    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys

    def register(self, release: Release, schedules: Sequence[Schedule]) -> Registered:
        names = [key for schedule in schedules for key in self._keys_of(release.source, schedule.name)]
        arguments: list[Argument] = [*release, release.order, STALE_S, FORGOTTEN_S, LIFE_S, BACK_S]
        for schedule in schedules:
            arguments += (schedule.name, schedule.digest, str(schedule.rule), schedule.text)
        keys = (schedules_key(self._keys), source_key(self._keys, release.source), *names)
        now, *states = self._connections.script(_REGISTER, keys, arguments)
        if len(states) < len(schedules):
            return Registered(machine.time(), newer=text(now))
        return Registered(float(now), tuple(map(_state, states)))

    def fire(self, release: Release, firing: Firing) -> FiringResult:
        numbers: dict[str, int] = {}
        push: list[Argument] = []
        if firing.push is not None:
            number_of = lambda key: numbers.setdefault(key, len(numbers) + 1)  # noqa: E731
            push = push_arguments(firing.push, self._keys, number_of, machine.time())
        source = source_key(self._keys, release.source)
        record_and_history = self._keys_of(release.source, firing.name)
        keys = (self._keys.queues, source, *record_and_history, self._keys.nothing, *numbers)
        missed_from = "" if firing.missed_from is None else firing.missed_from
        flags = int(firing.asked), int(firing.skips)
        firing_arguments = (firing.number, firing.slot, firing.word, firing.jid, missed_from, *flags)
        arguments = (release.order, *firing_arguments, MOST_FIRINGS, LIFE_S, *push)
        how, *more = map(text, self._connections.script(_FIRE, keys, arguments))
        if how == "done":
            return FiringResult(Fired.DONE, _WORDS[more[0]])
        if how == "held":
            return FiringResult(Fired.CHANGED, holder=holder_of(*more))
        return FiringResult(Fired.EARLY if how == "early" else Fired.CHANGED)

    # --- for people

    def records(self) -> list[ScheduleRecord]:
        members = sorted(text(member) for member in self._connections.call("SMEMBERS", schedules_key(self._keys)))
        names = [member.partition(":")[::2] for member in members]
        asks: list[tuple[Argument, ...]] = []
        for source, name in names:
            record, history = self._keys_of(source, name)
            asks += [("HGETALL", record), ("LRANGE", history, 0, 0), ("HGETALL", source_key(self._keys, source))]
        replies = self._connections.answers(asks)
        records = zip(names, replies[::3], replies[1::3], replies[2::3], strict=True)
        return [_record(*name, *parts) for name, *parts in records if parts[0] != []]  # an expired one is empty

    def history(self, source: str, name: str) -> list[HistoryEntry]:
        key = history_key(self._keys, source, name)
        return [_entry(text(line)) for line in self._connections.call("LRANGE", key, 0, -1)]

    def pause(self, source: str, name: str) -> bool:
        return self._change(source, name, "pause")

    def resume(self, source: str, name: str) -> bool:
        return self._change(source, name, "resume")

    def override(self, source: str, name: str, text: bytes) -> bool:
        return self._change(source, name, "override", text)

    def ask(self, source: str, name: str) -> bool:
        return self._change(source, name, "ask")

    def forget(self, source: str, name: str) -> bool:
        record, history = self._keys_of(source, name)
        dels = ("DEL", record), ("DEL", history), ("SREM", schedules_key(self._keys), f"{source}:{name}")
        there, *_ = self._connections.transaction(dels)
        return bool(there)

    def foreign(self) -> list[ForeignSchedule]:
        """Finds the sets of sidekiq-cron with SCAN: each of its namespaces has one."""
        sets = sorted(keys_like(self._connections, any_cron_jobs(self._keys)))
        members = {
            text(name)
            for names in self._connections.answers([("SMEMBERS", key) for key in sets])
            for name in names or ()
        }
        asks = [("HGETALL", cron_job_key(self._keys, member)) for member in sorted(members)]
        asks += [("HGETALL", scheduler_jobs_key(self._keys)), ("HGETALL", scheduler_states_key(self._keys))]
        *cron_jobs, jobs, states = map(_by_name, self._connections.answers(asks))
        return [
            *(of_sidekiq_cron(job) for job in cron_jobs if job),
            *(of_sidekiq_scheduler(name, job, states.get(name, "")) for name, job in sorted(jobs.items())),
        ]

    def _change(self, source: str, name: str, word: str, value: bytes = b"") -> bool:
        return bool(self._connections.script(_CHANGE, (schedule_key(self._keys, source, name),), (word, value)))

    def _keys_of(self, source: str, name: str) -> tuple[str, str]:
        return schedule_key(self._keys, source, name), history_key(self._keys, source, name)


def _state(fields: Sequence[Any]) -> ScheduleState:
    number, in_force, since, paused, asked, override = fields
    return ScheduleState(number, bool(in_force), float(since), bool(paused), asked, override)


def _entry(line: str) -> HistoryEntry:
    word, slot, at, missed_from, jid = line.split(" ", 4)
    return HistoryEntry(word, float(slot), float(at), jid, float(missed_from) if missed_from else None)


def _record(
    source: str,
    name: str,
    record: Sequence[bytes] | None,
    history: Sequence[bytes] | None,
    newest: Sequence[bytes] | None,
) -> ScheduleRecord:
    """`record` is None when the record is damaged. A number that is none is shown as 0."""
    fields = _pairs(record or ())
    known = {field: text(value) for field, value in fields.items()}
    of_source = {field: text(value) for field, value in _pairs(newest or ()).items()}
    return ScheduleRecord(
        source,
        name,
        fields.get("text", b""),
        of_source.get("generation", ""),
        gone=known.get("order") != of_source.get("order", known.get("order")),
        since=max(as_number(known.get("last")), as_number(known.get("anchor"))),
        seen_at=as_number(known.get(f"seen:{known.get('digest')}")),
        paused="paused" in known,
        asked=int(as_number(known.get("asked"))),
        override=fields.get("override", b""),
        fired=int(as_number(known.get("fired"))),
        skipped=int(as_number(known.get("skipped"))),
        last=_entry(text(history[0])) if history else None,
    )


def _pairs(flat: Sequence[bytes]) -> dict[str, bytes]:
    return dict(zip(map(text, flat[::2]), flat[1::2], strict=True))


def _by_name(hash_: Sequence[bytes] | None) -> dict[str, str]:
    """None for a key that is no hash."""
    pairs = hash_ or ()
    return dict(zip(map(text, pairs[::2]), map(text, pairs[1::2]), strict=True))
