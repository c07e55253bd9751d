"""The cursors of iterable jobs in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.brokers.memory.expiring import Expiring
from goworkers_py.features.iteration.cursor import CURSOR_LIFE_S, Cursor, Iteration


class MemoryIterations:
    """Used under the lock of the state."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._cursors: Expiring[str, Cursor] = Expiring(clock)  # by jid

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

    def end_run(self, jid: str, cursor: Cursor, has_ended: bool) -> None:
        last = self._cursors.get(jid)
        if last is None or (last.of == cursor.of and last.run <= cursor.run):
            self._cursors.put(jid, cursor, 0 if has_ended else CURSOR_LIFE_S)
