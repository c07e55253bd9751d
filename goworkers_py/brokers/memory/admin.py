"""The contract `Admin` on the memory of this process."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence

from goworkers_py.brokers.contracts.admin import Admin, Checks, Glance, Place
from goworkers_py.brokers.contracts.fleet import (
    Counts,
    Day,
    InProgressJob,
    LeaseOwner,
    LineStats,
    Process,
    QueueStats,
    Running,
    Stats,
)
from goworkers_py.brokers.memory.jobs import MemoryJobs
from goworkers_py.brokers.memory.lease_record import LeaseRecord, Shown
from goworkers_py.brokers.memory.line_jobs import ParkedJob, PostedJob
from goworkers_py.brokers.memory.state import DeadLimits, State, Waiting
from goworkers_py.brokers.memory.stream import check_position
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.command import Command
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState
from goworkers_py.core.levels import is_paused
from goworkers_py.policy.lines import waiting_by_owner
from goworkers_py.wire.audit_record import read_entry
from goworkers_py.wire.stored_job import StoredJob

# An owner is in trouble after this long without a beat: four beats.
SILENT_AFTER_S = 20.0


class MemoryAdmin(Admin):
    def __init__(self, state: State, dead_limits: DeadLimits) -> None:
        self._state = state
        self._dead_limits = dead_limits

    # --- queues

    def queues(self) -> list[QueueStats]:
        with self._state.lock:
            return self._queue_stats()

    def queue(self, name: str) -> QueueStats | None:
        return next((queue for queue in self.queues() if queue.name == name), None)

    def pause(self, queue: str) -> bool:
        with self._state.lock:
            was_paused = queue in self._state.paused
            self._state.paused.add(queue)
            return not was_paused

    def resume(self, queue: str) -> bool:
        with self._state.lock:
            was_paused = queue in self._state.paused
            self._state.paused.discard(queue)
            return was_paused

    # --- jobs

    def jobs_in(self, place: Place, glance: Glance | None = None) -> MemoryJobs:
        if place.state is JobState.IN_PROGRESS:
            raise ArgumentError("jobs in progress cannot be listed as a place: call in_progress")
        return MemoryJobs(self._state, place, self._dead_limits, glance)

    def lines(self) -> list[LineStats]:
        return self._line_stats(self._state.lines)

    def outboxes(self) -> list[LineStats]:
        return self._line_stats(self._state.outboxes)

    def _line_stats(self, lines: Mapping[str, Mapping[int, ParkedJob | PostedJob]]) -> list[LineStats]:
        with self._state.lock:
            now = self._state.clock()
            return [
                LineStats(name, len(jobs), now - next(iter(jobs.values())).at) for name, jobs in sorted(lines.items())
            ]

    # --- the fleet

    def stats(self) -> Stats:
        state = self._state
        with state.lock:
            now = state.clock()
            return Stats(
                processed=state.processed,
                failed=state.failed,
                scheduled=len(state.timed[JobState.SCHEDULED]),
                retries=len(state.timed[JobState.RETRY]),
                dead=len(state.timed[JobState.DEAD]),
                in_progress=sum(record.count() for record in state.leases.values()),
                processes=sum(record.is_alive(now) for record in state.leases.values()),
                queues=self._queue_stats(),
                parked=sum(map(len, state.lines.values())),
                outbox=sum(map(len, state.outboxes.values())),
                limits=waiting_by_owner((name, len(jobs)) for name, jobs in state.lines.items()),
            )

    def history(self, days: int) -> list[Day]:
        with self._state.lock:
            today = int(self._state.clock() // 86_400)
            return [_day(number, self._state.days.get(number, {})) for number in range(today, today - days, -1)]

    def owners(self) -> list[LeaseOwner]:
        with self._state.lock:
            now = self._state.clock()
            return [_owner(identity, record, now) for identity, record in sorted(self._state.leases.items())]

    def dead_holders(self, owners: Collection[str]) -> set[str]:
        with self._state.lock:
            return {owner for owner in owners if self._state.is_dead(owner)}

    def in_progress(self, queue: str = "", identity: str = "") -> Iterator[InProgressJob]:
        since = {(run.identity, run.job.payload): run.since for run in self.running()}
        for owner in self.owners():
            if identity not in ("", owner.identity):
                continue
            for name, payload in self._in_progress_under(owner.identity):
                if queue in ("", name):
                    yield InProgressJob(owner, name, StoredJob(payload, name), since.get((owner.identity, payload)))

    def _in_progress_under(self, identity: str) -> list[tuple[str, bytes]]:
        with self._state.lock:
            record = self._state.leases.get(identity)
            by_queue = sorted(record.in_progress.items()) if record else []
            return [(queue, payload) for queue, jobs in by_queue for payload in jobs.values()]

    def held(self, owners: Collection[LeaseOwner], queue: str | None = None) -> int:
        with self._state.lock:
            records = [self._state.leases.get(owner.identity) for owner in owners]
            return sum(record.count(queue) for record in records if record is not None)

    def processes(self) -> list[Process]:
        with self._state.lock:
            return [shown.process for shown in self._shown()]

    def running(self) -> list[Running]:
        with self._state.lock:
            return sorted((job for shown in self._shown() for job in shown.running), key=lambda job: job.order)

    def ask(self, identities: Sequence[str], command: Command) -> None:
        with self._state.lock:
            for identity in identities:
                record = self._state.leases.get(identity)
                if record is not None and record.shown is not None:
                    record.shown.asked.append((self._state.clock(), command))

    def note_action(self, entry: str) -> None:
        with self._state.lock:
            self._state.actions.add(entry.encode())

    def actions(self, before: str, limit: int) -> Sequence[AuditEntry]:
        check_position("before", before)
        with self._state.lock:
            entries = self._state.actions.before(before)[:limit]
        found = [read_entry(entry.value, str(entry.number), entry.at) for entry in entries]
        return [entry for entry in found if entry is not None]

    # --- the broker itself

    def now(self) -> float:
        return self._state.clock()

    def damage(self) -> list[str]:
        return []

    def damaged_queues(self) -> list[str]:
        return []

    def checks(self, queues: Collection[str]) -> Checks:
        return {}

    # --- under the lock

    def _queue_stats(self) -> list[QueueStats]:
        queues, paused, now = self._state.queues, self._state.paused, self._state.clock()
        return [
            QueueStats(name, len(jobs), _latency_s(name, jobs, now), is_paused(name, paused))
            for name in sorted({*queues, *paused})
            for jobs in [queues.get(name, Waiting())]
        ]

    def _shown(self) -> list[Shown]:
        """Of the processes that live."""
        now = self._state.clock()
        records = [record for _, record in sorted(self._state.leases.items()) if record.is_alive(now)]
        return [record.shown for record in records if record.shown is not None]


def _day(number: int, counts: Mapping[str | None, Counts]) -> Day:
    date = datetime.date(1970, 1, 1) + datetime.timedelta(days=number)
    queues = {queue: queue_counts for queue, queue_counts in counts.items() if queue is not None and any(queue_counts)}
    return Day(date.isoformat(), *counts.get(None, Counts()), dict(sorted(queues.items())))


def _latency_s(queue: str, jobs: Waiting, now: float) -> float:
    message = next((StoredJob(payload, queue).message for payload in jobs.values()), None)
    since = message and (message.enqueued_at or message.created_at)
    return max(0.0, now - since) if since else 0.0


def _owner(identity: str, record: LeaseRecord, now: float) -> LeaseOwner:
    alive, silent_s = record.is_alive(now), now - record.heard
    trouble = f"sent no beat for {silent_s:.0f} s" if silent_s > SILENT_AFTER_S else record.presence.trouble
    return LeaseOwner(
        identity,
        queues=sorted(record.presence.queues),
        here=True,
        trouble=trouble if alive else "",
        alive=alive,
        dead_for_sure=record.died_at is not None,
    )
