"""Tombstones in the state of a memory broker, and for those who lay and meet them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from goworkers_py.brokers.memory.expiring import Expiring
from goworkers_py.brokers.memory.parts import MemoryPart
from goworkers_py.brokers.memory.state import State
from goworkers_py.features.cancelling.contract import Cancels, Changed
from goworkers_py.features.cancelling.effects import MeetTombstone
from goworkers_py.features.cancelling.tombstone import Tombstone

ANSWER_LIFE_S = 60.0


class TombstoneTable(MemoryPart):
    """Used under the lock of the state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.laid: dict[str, Tombstone] = {}  # by jid
        self.answers: Expiring[str, str] = Expiring(lambda: state.clock())
        self.heard: list[Changed] = []
        self.version = 0
        self.ties = {}
        self.effects = {MeetTombstone: lambda effect: self._meet(effect.jid, effect.state)}

    def lay(self, jid: str, retry: bool, many: bool = False) -> Tombstone | None:
        """None when another one stands and stays."""
        standing = self.laid.get(jid)
        if standing is None:
            self.answers.put(jid, "", 0)  # an older answer is about another run
        elif retry and not standing.retry:
            return None
        laid = self.laid[jid] = Tombstone(retry, self._state.clock(), many)
        self.version += 1
        for heard in self.heard:
            heard()
        return laid

    def remove(self, jid: str) -> None:
        self.laid.pop(jid, None)
        self.version += 1

    def _meet(self, jid: str, state: str) -> None:
        if jid not in self.laid:
            return
        self.remove(jid)
        self.answers.put(jid, state, ANSWER_LIFE_S)
        for heard in self.heard:
            heard()


class MemoryCancels(Cancels):
    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.part(TombstoneTable)

    def ask(self, jid: str, retry: bool) -> object:
        with self._state.lock:
            return self._table.lay(jid, retry)

    def withdraw(self, jid: str, asked: object) -> None:
        with self._state.lock:
            if asked is not None and self._table.laid.get(jid) is asked:
                self._table.remove(jid)

    def answer(self, jid: str) -> str | None:
        with self._state.lock:
            return self._table.answers.get(jid)

    def watch(self, jid: str, changed: Callable[[str], None]) -> Callable[[], None]:
        def look() -> None:
            changed("")

        return self.listen(look)

    def stands(self, jid: str) -> bool:
        with self._state.lock:
            return jid in self._table.laid

    def all(self, version: str) -> tuple[str, Mapping[str, Tombstone]] | None:
        with self._state.lock:
            now = str(self._table.version)
            return None if now == version else (now, dict(self._table.laid))

    def listen(self, changed: Changed) -> Callable[[], None]:
        with self._state.lock:
            self._table.heard.append(changed)
        changed()
        return lambda: self._end(changed)

    def _end(self, changed: Changed) -> None:
        with self._state.lock:
            self._table.heard.remove(changed)

    def elsewhere(self, jids: Collection[str], shown: Collection[str] = ()) -> set[str]:
        return set()
