"""The cursors of iterable jobs in the state of a memory broker, and for their runs."""

from __future__ import annotations

from goworkers_py.brokers.memory.expiring import Expiring
from goworkers_py.brokers.memory.parts import MemoryPart
from goworkers_py.brokers.memory.state import State
from goworkers_py.features.iteration.contract import Iterations
from goworkers_py.features.iteration.cursor import CURSOR_LIFE_S, Cursor, Iteration
from goworkers_py.features.iteration.effects import StoreCursor


class CursorTable(MemoryPart):
    """Used under the lock of the state."""

    def __init__(self, state: State) -> None:
        self._cursors: Expiring[str, Cursor] = Expiring(lambda: state.clock())  # by jid
        self.ties = {}
        self.effects = {StoreCursor: lambda effect: self._end_run(effect.jid, effect.cursor, effect.has_ended)}

    def begin(self, jid: str, of: str) -> Iteration:
        last = self._cursors.get(jid)
        if last is None or last.of != of:
            last = Cursor(0, "null", 0.0, of)
        cursor = last._replace(run=last.run + 1)
        self._cursors.put(jid, cursor, CURSOR_LIFE_S)
        return Iteration(cursor)

    def checkpoint(self, jid: str, cursor: Cursor) -> bool:
        last = self._cursors.get(jid)
        if last is not None and last.of != cursor.of:
            return True
        if last is None or last.run != cursor.run:
            return False
        self._cursors.put(jid, cursor, CURSOR_LIFE_S)
        return True

    def _end_run(self, jid: str, cursor: Cursor, has_ended: bool) -> None:
        last = self._cursors.get(jid)
        if last is None or (last.of == cursor.of and last.run <= cursor.run):
            self._cursors.put(jid, cursor, 0 if has_ended else CURSOR_LIFE_S)


class MemoryIterations(Iterations):
    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.part(CursorTable)

    def begin(self, jid: str, of: str) -> Iteration:
        with self._state.lock:
            return self._table.begin(jid, of)

    def checkpoint(self, jid: str, cursor: Cursor) -> bool:
        with self._state.lock:
            return self._table.checkpoint(jid, cursor)
