"""Jobs that wait for a time or in a line are moved into their queues; and the values that jobs store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from goworkers_py.brokers.contracts.store import EndedPage, EndedPlace, Forward, Posted, RunningMark, Store
from goworkers_py.brokers.contracts.transport import Batch, Settled
from goworkers_py.brokers.memory.endings import Endings
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.core.cursor import Cursor, Iteration
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.job_state import JobState, StateWord
from goworkers_py.core.outcome import Outcome
from goworkers_py.features.tracking.effects import NoteState
from goworkers_py.features.tracking.record import LIVE_S, read
from goworkers_py.wire.job_record import JobRecord


class MemoryStore(Store):
    def __init__(self, state: State, endings: Endings, dead_limits: DeadLimits) -> None:
        self._state = state
        self._endings = endings
        self._dead_limits = dead_limits

    def promote(self, state: JobState, forward: Forward, at_once: int) -> Iterator[float | None]:
        more = True
        while more:
            with self._state.lock:
                now = self._state.clock()
                due = self._state.timed[state].until(now, at_once)
            # Without the lock: `forward` rewrites payloads, which takes long. Another process may move jobs meanwhile.
            moves = [(job, *forward(job.payload, now)) for job in due]
            with self._state.lock:
                for job, queue, payload in moves:
                    if self._state.timed[state].remove(job):
                        self._move(queue, payload)
                        self._state.note_move(job.payload, "waiting" if queue else "dead", "due", queue or "")
                next_at = self._state.timed[state].next_after(now)
            more = len(due) == at_once
            yield None if next_at is None else next_at - now

    def release(self, line: str, count: int) -> int:
        with self._state.lock:
            first = list(self._state.lines.get(line, ()))[:count]
            for number in reversed(first):
                if job := self._state.unpark(line, number):
                    self._state.put(job.queue, job.payload, first=True)
                    self._state.note_move(job.payload, "waiting", "released", job.queue)
            return len(first)

    def apply(self, batch: Batch) -> Sequence[Settled]:
        return self._endings.settle(f"{batch.settler}:store", batch, self._apply_one)

    def _apply_one(self, delivery: Delivery, outcome: Outcome) -> bool:
        """Under the lock."""
        self._endings.put_into_place(delivery, outcome)
        self._endings.apply_once(outcome.effects)
        return True

    def posted(self, to: str, limit: int, passed: int = 0) -> list[Posted]:
        with self._state.lock:
            jobs = list(self._state.outboxes.get(to, {}).values())[passed : passed + limit]
            return [Posted(job.push, job.number) for job in jobs]

    def sent(self, to: str, posted: Sequence[Posted]) -> None:
        with self._state.lock:
            for one in posted:
                self._state.unpost(to, one.receipt)

    def record(self, jid: str) -> JobRecord | None:
        with self._state.lock:
            fields = self._state.records.get(jid)
        return None if fields is None else read(jid, fields)

    def ended(self, state: StateWord, after: EndedPlace | None, limit: int) -> EndedPage:
        found: list[JobRecord] = []
        with self._state.lock:
            records = self._state.records
            places = records.ended.behind(state, after)
            for place in places[:limit]:
                fields = records.get(place.jid)
                record = None if fields is None else read(place.jid, fields)
                if record is not None and record.state == state:
                    found.append(replace(record, result=None if record.result is None else b""))
                else:
                    records.ended.remove(state, place)
            more = len(places) > limit
            return EndedPage(found, places[limit - 1] if more else None, records.ended.count(state))

    def watch(self, jid: str, changed: Callable[[], None]) -> Callable[[], None]:
        with self._state.lock:
            listeners = self._state.records.listeners.setdefault(jid, set())
            listeners.add(changed)
        changed()
        return lambda: self._end_watch(jid, changed)

    def _end_watch(self, jid: str, changed: Callable[[], None]) -> None:
        with self._state.lock:
            listeners = self._state.records.listeners.get(jid, set())
            listeners.discard(changed)
            if not listeners:
                self._state.records.listeners.pop(jid, None)

    def mark_running(self, marks: Sequence[RunningMark]) -> list[bool]:
        with self._state.lock:
            return [self._mark_running(mark) for mark in marks]

    def _mark_running(self, mark: RunningMark) -> bool:
        """Under the lock."""
        job, one, records = mark.job, mark.delivery, self._state.records
        if mark.first:
            if not self._state.is_in_progress(one.identity, one.queue, one.receipt):
                return False
            fields = (("owner", one.identity), ("queue", one.queue))
            records.note(NoteState(job, "running", f"in {one.identity}", LIVE_S, fields))
        told = records.get(job.jid) or {}
        runs = told.get("state") == b"running" and told["owner"] == one.identity.encode()
        if runs and mark.progress is not None:
            records.set(job.jid, {"progress": mark.progress})
        return runs

    def begin_iteration(self, jid: str, of: str) -> Iteration:
        with self._state.lock:
            return self._state.iterations.begin(jid, of)

    def checkpoint(self, jid: str, cursor: Cursor) -> bool:
        with self._state.lock:
            return self._state.iterations.checkpoint(jid, cursor)

    def value(self, kind: str, jid: str) -> bytes | None:
        with self._state.lock:
            return self._state.values.get((kind, jid))

    def _move(self, queue: str | None, payload: bytes) -> None:
        if queue is None:
            self._state.bury(payload, self._dead_limits)
        else:
            self._state.put(queue, payload)
