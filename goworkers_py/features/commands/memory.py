"""Calls in the memory of this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from goworkers_py.brokers.memory.state import State
from goworkers_py.core.audit_entry import AuditEntry
from goworkers_py.core.errors import ArgumentError
from goworkers_py.features.commands.call import Answer, Call, Report
from goworkers_py.features.commands.contract import Calls
from goworkers_py.features.commands.record import (
    first_of_each,
    living_call,
    read_answer,
    read_report,
    written_answer,
    written_call,
    written_report,
)
from goworkers_py.wire.audit_record import read_entry

ANSWERS_KEPT_S = 120.0

_POSITION = re.compile(r"[0-9]{1,19}")


class MemoryCalls(Calls):
    """Calls and answers are kept as JSON, so that they are the same as with every other broker."""

    def __init__(self, state: State) -> None:
        self._state = state

    def give(self, call: Call) -> None:
        written = written_call(call).encode()
        with self._state.lock:
            self._state.channels.calls.add(written)

    def end(self) -> str:
        with self._state.lock:
            return self._state.channels.calls.end

    def after(self, position: str) -> tuple[str, Sequence[Call]]:
        with self._state.lock:
            entries, now = self._state.channels.calls.after(position), self._state.clock()
        calls = [living_call(entry.value, now - entry.at) for entry in entries]
        return (str(entries[-1].number) if entries else position), [call for call in calls if call is not None]

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._heard_by(changed, self._state.channels.calls.heard)

    def answer(self, call_id: str, answer: Answer) -> None:
        written = written_answer(answer).encode()
        with self._state.lock:
            before = self._state.channels.answers.get(call_id) or ()
            self._state.channels.answers.put(call_id, (*before, written), ANSWERS_KEPT_S)
            for heard in self._state.channels.answered:
                heard()

    def answers(self, call_id: str) -> Sequence[Answer]:
        with self._state.lock:
            written = self._state.channels.answers.get(call_id) or ()
        return first_of_each([read_answer(raw) for raw in written])

    def watch(self, call_id: str, changed: Callable[[], None]) -> Callable[[], None]:
        return self._heard_by(changed, self._state.channels.answered)

    def report(self, name: str, identity: str, body: str) -> None:
        written = written_report(name, identity, body).encode()
        with self._state.lock:
            self._state.channels.reports.add(written)

    def reports(self, after: str, limit: int) -> Sequence[Report]:
        _check("after", after)
        with self._state.lock:
            entries = self._state.channels.reports.after(after or "0")
        chosen = entries[:limit] if after else entries[-limit:]
        found = [read_report(entry.value, str(entry.number), entry.at) for entry in chosen]
        return [report for report in found if report is not None]

    def note_action(self, entry: str) -> None:
        with self._state.lock:
            self._state.channels.actions.add(entry.encode())

    def actions(self, before: str, limit: int) -> Sequence[AuditEntry]:
        _check("before", before)
        with self._state.lock:
            entries = self._state.channels.actions.before(before)[:limit]
        found = [read_entry(entry.value, str(entry.number), entry.at) for entry in entries]
        return [entry for entry in found if entry is not None]

    def _heard_by(self, changed: Callable[[], None], listeners: list[Callable[[], None]]) -> Callable[[], None]:
        with self._state.lock:
            listeners.append(changed)
        changed()

        def end() -> None:
            with self._state.lock:
                if changed in listeners:
                    listeners.remove(changed)

        return end


def _check(parameter: str, position: str) -> None:
    if position and not _POSITION.fullmatch(position):
        raise ArgumentError(f"{parameter}: {position[:100]!r} is not the position of an entry")
