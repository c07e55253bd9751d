"""Chains in the memory of this process."""

from __future__ import annotations

from collections.abc import Iterator

from goworkers_py.brokers.memory.state import State
from goworkers_py.features.chains.chain import ChainStatus, NewChain
from goworkers_py.features.chains.contract import Chains


class MemoryChains(Chains):
    def __init__(self, state: State) -> None:
        self._table = state.chains
        self._lock = state.lock

    def push(self, new: NewChain) -> bool:
        with self._lock:
            return self._table.push(new)

    def cancel(self, cid: str) -> bool:
        with self._lock:
            return self._table.cancel(cid)

    def status(self, cid: str) -> ChainStatus | None:
        with self._lock:
            return self._table.status(cid)

    def entries(self) -> Iterator[ChainStatus]:
        with self._lock:
            return iter(self._table.entries())
