"""The tombstones of jobs that are to be cancelled, see `features.cancelling.contract`."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.brokers.memory.expiring import Expiring
from goworkers_py.features.cancelling.contract import Changed
from goworkers_py.features.cancelling.tombstone import Tombstone

ANSWER_LIFE_S = 60.0


class Tombstones:
    """Used under the lock of the state."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.laid: dict[str, Tombstone] = {}  # by jid
        self.answers: Expiring[str, str] = Expiring(clock)
        self.heard: list[Changed] = []
        self.version = 0

    def lay(self, jid: str, retry: bool, many: bool = False) -> Tombstone | None:
        """None when another one stands and stays."""
        standing = self.laid.get(jid)
        if standing is None:
            self.answers.put(jid, "", 0)  # an older answer is about another run
        elif retry and not standing.retry:
            return None
        laid = self.laid[jid] = Tombstone(retry, self._clock(), many)
        self.version += 1
        for heard in self.heard:
            heard()
        return laid

    def remove(self, jid: str) -> None:
        self.laid.pop(jid, None)
        self.version += 1

    def meet(self, jid: str, state: str) -> None:
        if jid not in self.laid:
            return
        self.remove(jid)
        self.answers.put(jid, state, ANSWER_LIFE_S)
        for heard in self.heard:
            heard()
