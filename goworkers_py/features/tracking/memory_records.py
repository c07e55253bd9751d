"""The records of a memory broker, for the threads of a process, and for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from goworkers_py.brokers.memory.state import State
from goworkers_py.core.job_state import StateWord
from goworkers_py.features.tracking.contract import EndedPage, EndedPlace, Records, RunningMark
from goworkers_py.features.tracking.effects import NoteState
from goworkers_py.features.tracking.record import LIVE_S, read
from goworkers_py.wire.job_record import JobRecord


class MemoryRecords(Records):
    def __init__(self, state: State) -> None:
        self._state = state

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
        self._state.begin_wait(jid)
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
