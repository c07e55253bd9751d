"""Batches in the memory of this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.brokers.memory.state import State
from goworkers_py.features.batches import payload as wire
from goworkers_py.features.batches.batch import BatchStatus, Death, NewBatch
from goworkers_py.features.batches.contract import Batches


class MemoryBatches(Batches):
    def __init__(self, state: State) -> None:
        self._table = state.batches
        self._lock = state.lock

    def open(self, new: NewBatch) -> bool:
        with self._lock:
            return self._table.open(new)

    def hold(self, bid: str, hold: str) -> bool:
        with self._lock:
            return self._table.hold(bid, hold)

    def let_go(self, bid: str, hold: str, to: Sequence[str] = ()) -> None:
        with self._lock:
            self._table.let_go(bid, hold)

    def cancel(self, bid: str, to: Sequence[str] = ()) -> bool:
        with self._lock:
            return self._table.cancel(bid)

    def close(self, bid: str, to: Sequence[str] = (), force: bool = False) -> bool:
        with self._lock:
            return self._table.close(bid, force)

    def status(self, bid: str) -> BatchStatus | None:
        with self._lock:
            return self._table.status(bid)

    def deaths(self, bid: str) -> list[Death]:
        with self._lock:
            return wire.deaths(self._table.deaths(bid))

    def entries(self) -> Iterator[BatchStatus]:
        with self._lock:
            return iter(self._table.entries())
