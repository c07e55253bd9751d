"""The local queue between the fetcher of a queue and its workers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from goworkers_py.core.delivery import Delivery

STOP: Final = None


class Buffer:
    """The local queue between one fetcher and its workers, bounded by how many deliveries may be out at once.

    A delivery is out from `put` until `done` or `take_back`: while it waits here and while a worker runs it. The
    fetcher's thread waits in `room` until a worker has finished a delivery.

    Workers call `get` and `done` for every job. They take `_lock` by a plain `with`, which is a single step of C code,
    see `hand_over`; to enter a Condition would be Python code. A worker that loses the interpreter while it holds
    `_lock` stops all others, so `done` takes `_lock` only when it has made the room that the fetcher waits for.
    """

    def __init__(self, capacity: int) -> None:
        # SimpleQueue is written in C: a hand-over through queue.Queue costs three times as much.
        self._waiting: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self.get = self._waiting.get  # returns the next delivery to run, or STOP when the worker should end
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._capacity = capacity
        self._awaited = 0  # how much room the fetcher's thread waits for; 0 while it does not wait
        self._out: set[Delivery] = set()  # used by any thread, also without the lock: each change is one step of C code
        self.last_done: Delivery | None = None  # set by `done`; the fetcher compares it: has a job ended since?
        self._closed = False

    def put(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            self._out.update(deliveries)
        for delivery in deliveries:
            self._waiting.put(delivery)

    def done(self, delivery: Delivery) -> None:
        """In a worker's thread. May be called twice for one delivery."""
        self._out.discard(delivery)
        self.last_done = delivery
        # No wake-up is lost: the fetcher's thread (in `room`) sets `_awaited` before it reads `_out`; a worker's thread
        # (here) changes `_out` before it reads `_awaited`. So at least one of the two sees the other's change.
        if 0 < self._awaited <= self._capacity - len(self._out):
            with self._lock:
                # Not `notify`: it might wake a stale waiter, left by an earlier call that an exception broke off.
                self._changed.notify_all()

    def room(self, timeout_s: float, at_least: int = 1) -> int:
        """Waits until `at_least` more may be fetched. Returns how many may be; 0 when closed or at the time limit."""
        with self._changed:
            self._awaited = at_least
            enough = self._changed.wait_for(
                lambda: self._closed or self._capacity - len(self._out) >= at_least, timeout_s
            )
            self._awaited = 0
            return self._capacity - len(self._out) if enough and not self._closed else 0

    def resize(self, capacity: int) -> None:
        with self._changed:
            self._capacity = capacity
            self._changed.notify_all()

    def close(self) -> None:
        """Wakes the fetcher: `room` does not wait from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take_back(self) -> list[Delivery]:
        """Takes back the deliveries that no worker has taken, oldest first."""
        taken: list[Delivery | None] = []
        with suppress(queue.Empty):
            while True:
                taken.append(self._waiting.get_nowait())
        for _ in range(taken.count(STOP)):
            self._waiting.put(STOP)  # for the workers, which end at it
        unstarted = [delivery for delivery in taken if delivery is not None]
        with self._lock:
            self._out.difference_update(unstarted)
            self._changed.notify_all()
        return unstarted

    def stop_workers(self, how_many: int) -> None:
        for _ in range(how_many):
            self._waiting.put(STOP)

    @property
    def out(self) -> int:
        return len(self._out)

    def __len__(self) -> int:
        return self._waiting.qsize()
