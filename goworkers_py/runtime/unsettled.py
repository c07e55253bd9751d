"""The deliveries that a process answers for."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from goworkers_py.core.delivery import Delivery


class Unsettled:
    """What this process answers for: everything fetched whose settling the server has not confirmed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._removed = threading.Condition(self._lock)
        self._deliveries: dict[int, Delivery] = {}
        self._kept: set[Delivery] = set()  # from any thread, also without the lock: each change is one step of C code

    def add(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            self._deliveries.update(zip(map(id, deliveries), deliveries, strict=True))

    def keep(self, delivery: Delivery) -> None:
        """It ran and was not acknowledged: it is held until this process stops."""
        delivery.kept = True
        self._kept.add(delivery)

    def remove(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            for delivery in deliveries:
                self._deliveries.pop(id(delivery), None)
            if self._kept:
                self._kept.difference_update(deliveries)
            self._removed.notify_all()

    def await_gone(self, deliveries: Sequence[Delivery], timeout_s: float) -> bool:
        with self._removed:
            return self._removed.wait_for(
                lambda: not any(id(delivery) in self._deliveries for delivery in deliveries), timeout_s
            )

    def snapshot(self) -> list[Delivery]:
        """Oldest first."""
        with self._lock:
            return list(self._deliveries.values())

    @property
    def kept(self) -> int:
        return len(self._kept)

    def __len__(self) -> int:
        return len(self._deliveries)


def unheld(owner: str, listed: Iterable[bytes], held: Iterable[Delivery]) -> list[bytes]:
    """What the server lists for `owner` beyond `held`, a snapshot that must be older than the list.

    Only the fetcher adds to what is held, and it is the one that asks; others only take away, after the server did.
    """
    known = Counter(delivery.raw for delivery in held if delivery.owner == owner)
    lost = []
    for raw in listed:
        if known[raw] > 0:
            known[raw] -= 1
        else:
            lost.append(raw)
    return lost
