"""Tombstones in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from goworkers_py.brokers.memory.state import State
from goworkers_py.features.cancelling.contract import Cancels, Changed
from goworkers_py.features.cancelling.tombstone import Tombstone


class MemoryCancels(Cancels):
    def __init__(self, state: State) -> None:
        self._state = state

    def ask(self, jid: str, retry: bool) -> object:
        with self._state.lock:
            return self._state.tombstones.lay(jid, retry)

    def withdraw(self, jid: str, asked: object) -> None:
        with self._state.lock:
            if asked is not None and self._state.tombstones.laid.get(jid) is asked:
                self._state.tombstones.remove(jid)

    def answer(self, jid: str) -> str | None:
        with self._state.lock:
            return self._state.tombstones.answers.get(jid)

    def watch(self, jid: str, changed: Callable[[str], None]) -> Callable[[], None]:
        def look() -> None:
            changed("")

        return self.listen(look)

    def stands(self, jid: str) -> bool:
        with self._state.lock:
            return jid in self._state.tombstones.laid

    def all(self, version: str) -> tuple[str, Mapping[str, Tombstone]] | None:
        with self._state.lock:
            now = str(self._state.tombstones.version)
            return None if now == version else (now, dict(self._state.tombstones.laid))

    def listen(self, changed: Changed) -> Callable[[], None]:
        with self._state.lock:
            self._state.tombstones.heard.append(changed)
        changed()
        return lambda: self._end(changed)

    def _end(self, changed: Changed) -> None:
        with self._state.lock:
            self._state.tombstones.heard.remove(changed)

    def elsewhere(self, jids: Collection[str], shown: Collection[str] = ()) -> set[str]:
        return set()
