"""Calls in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goworkers_py.brokers.memory.expiring import Expiring
from goworkers_py.brokers.memory.parts import MemoryPart
from goworkers_py.brokers.memory.state import State
from goworkers_py.brokers.memory.stream import Stream, check_position
from goworkers_py.features.calls.call import ANSWERS_KEPT_S, CALLS_KEPT, REPORTS_KEPT, Answer, Call, Report
from goworkers_py.features.calls.contract import Calls
from goworkers_py.features.calls.record import (
    first_of_each,
    living_call,
    read_answer,
    read_report,
    written_answer,
    written_call,
    written_report,
)


class CallTable(MemoryPart):
    """The messages to the processes and from them."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.calls: Stream[bytes] = Stream(CALLS_KEPT, lambda: state.clock())
        self.reports: Stream[bytes] = Stream(REPORTS_KEPT, lambda: state.clock())
        self.answers: Expiring[str, tuple[bytes, ...]] = Expiring(lambda: state.clock())  # by the id of their call
        self.answered: list[Callable[[], None]] = []  # called at each answer


class MemoryCalls(Calls):
    """Calls and answers are kept as JSON, so that they are the same as with every other broker."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.part(CallTable)

    def give(self, call: Call) -> None:
        written = written_call(call).encode()
        with self._state.lock:
            self._table.calls.add(written)

    def end(self) -> str:
        with self._state.lock:
            return self._table.calls.end

    def after(self, position: str) -> tuple[str, Sequence[Call]]:
        with self._state.lock:
            entries, now = self._table.calls.after(position), self._state.clock()
        calls = [living_call(entry.value, now - entry.at) for entry in entries]
        return (str(entries[-1].number) if entries else position), [call for call in calls if call is not None]

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        return self._heard_by(changed, self._table.calls.heard)

    def answer(self, call_id: str, answer: Answer) -> None:
        written = written_answer(answer).encode()
        with self._state.lock:
            before = self._table.answers.get(call_id) or ()
            self._table.answers.put(call_id, (*before, written), ANSWERS_KEPT_S)
            for heard in self._table.answered:
                heard()

    def answers(self, call_id: str) -> Sequence[Answer]:
        with self._state.lock:
            written = self._table.answers.get(call_id) or ()
        return first_of_each([read_answer(raw) for raw in written])

    def watch(self, call_id: str, changed: Callable[[], None]) -> Callable[[], None]:
        return self._heard_by(changed, self._table.answered)

    def report(self, name: str, identity: str, body: str) -> None:
        written = written_report(name, identity, body).encode()
        with self._state.lock:
            self._table.reports.add(written)

    def reports(self, after: str, limit: int) -> Sequence[Report]:
        check_position("after", after)
        with self._state.lock:
            entries = self._table.reports.after(after or "0")
        chosen = entries[:limit] if after else entries[-limit:]
        found = [read_report(entry.value, str(entry.number), entry.at) for entry in chosen]
        return [report for report in found if report is not None]

    def _heard_by(self, changed: Callable[[], None], listeners: list[Callable[[], None]]) -> Callable[[], None]:
        with self._state.lock:
            listeners.append(changed)
        changed()

        def end() -> None:
            with self._state.lock:
                if changed in listeners:
                    listeners.remove(changed)

        return end
