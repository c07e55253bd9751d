"""The deliveries of one pool that this process has fetched and not settled."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice, repeat

from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery, Stage
from goworkers_py.core.strikes import lock_outside_runs


class Unsettled:
    """All deliveries from their fetch until the broker has confirmed that they are settled, the oldest first."""

    def __init__(self) -> None:
        lock = machine.Lock()
        self._lock = lock_outside_runs(lock)
        self._removed = machine.Condition(lock)
        # Changed under the lock. The settler uses `in` for every job without the lock: it is one step of C code.
        self.deliveries: dict[Delivery, None] = {}
        self._kept: set[Delivery] = set()  # also used without the lock: each change is one step of C code

    def add(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            self.deliveries.update(dict.fromkeys(deliveries))

    def keep(self, delivery: Delivery) -> None:
        """`delivery` ran and was not acknowledged: it stays in progress until this process stops."""
        delivery.stage = Stage.KEPT
        self._kept.add(delivery)

    def remove(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            deque(map(self.deliveries.pop, deliveries, repeat(None)), maxlen=0)  # a loop in C
            if self._kept:
                self._kept.difference_update(deliveries)
            self._removed.notify_all()

    def await_gone(self, deliveries: Sequence[Delivery], timeout_s: float) -> bool:
        with self._removed:
            return self._removed.wait_for(
                lambda: not any(delivery in self.deliveries for delivery in deliveries), timeout_s
            )

    def await_removal(self, timeout_s: float) -> None:
        with self._removed:
            self._removed.wait(timeout_s)

    def oldest(self, count: int) -> list[Delivery]:
        with self._lock:
            return list(islice(self.deliveries, count))

    def snapshot(self) -> list[Delivery]:
        with self._lock:
            return list(self.deliveries)

    def of_queue(self, queue: str) -> list[Delivery]:
        return [delivery for delivery in self.snapshot() if delivery.queue == queue]

    @property
    def kept(self) -> int:
        return len(self._kept)

    def __len__(self) -> int:
        return len(self.deliveries)
