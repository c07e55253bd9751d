"""Tombstones in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from goworkers_py.brokers.contracts.cancels import Cancels, Heard
from goworkers_py.brokers.memory.state import State


class MemoryCancels(Cancels):
    def __init__(self, state: State) -> None:
        self._state = state

    def ask(self, jid: str, retry: bool) -> None:
        with self._state.lock:
            self._state.tombstones.lay(jid, retry)

    def withdraw(self, jid: str) -> None:
        with self._state.lock:
            self._state.tombstones.remove(jid)

    def answer(self, jid: str) -> str | None:
        with self._state.lock:
            return self._state.tombstones.answers.get(jid)

    def watch(self, jid: str, changed: Callable[[], None]) -> Callable[[], None]:
        def heard(told: str, retry: bool) -> None:
            changed()

        return self.listen(heard)

    def all(self, version: str) -> tuple[str, Mapping[str, bool]] | None:
        with self._state.lock:
            now = str(self._state.tombstones.version)
            return None if now == version else (now, dict(self._state.tombstones.laid))

    def listen(self, heard: Heard) -> Callable[[], None]:
        with self._state.lock:
            self._state.tombstones.heard.append(heard)
        heard("", False)
        return lambda: self._end(heard)

    def _end(self, heard: Heard) -> None:
        with self._state.lock:
            self._state.tombstones.heard.remove(heard)

    def elsewhere(self, jids: Collection[str]) -> set[str]:
        return set()
