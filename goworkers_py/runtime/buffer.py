"""The local queue between the fetcher of a queue and its workers."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from goworkers_py.core.delivery import Delivery

STOP: Final = None


class Buffer:
    """The local queue between one fetcher and its workers, bounded by what may be out at once.

    Out is what waits here plus what runs. The fetcher sleeps on `room` until a worker has finished something.

    An exception may be thrown into a worker's thread at any moment, also by the code of a job that it ran before.
    Nothing may get lost by it, and no lock may stay locked, so what workers call here is made of single steps of C
    code: a plain lock in a `with`, where a Condition's own methods are Python code, and see `take`. They come by for
    every job, and whoever loses the interpreter with a lock in hand stops all others: so they take it only when
    the fetcher waits for the very room that they have made.
    """

    def __init__(self, capacity: int) -> None:
        # SimpleQueue is written in C: a hand-over through queue.Queue costs three times as much.
        self._waiting: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._capacity = capacity
        self._awaited = 0  # how much room the fetcher waits for; 0 while it does not wait
        self._out: set[Delivery] = set()  # from any thread, also without the lock: each change is one step of C code
        self.last_done: Delivery | None = None  # set by workers, compared by the fetcher: has one ended since?
        self._closed = False

    def put(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            self._out.update(deliveries)
        for delivery in deliveries:
            self._waiting.put(delivery)

    def get(self) -> Delivery | None:
        """The next one to run; STOP when this worker should end."""
        return self._waiting.get()

    def take(self, hand: list[Delivery]) -> bool:
        """Puts the next one to run into `hand`, in one step; False when this worker should end."""
        hand.extend(itertools.islice(iter(self._waiting.get, STOP), 1))
        return bool(hand)

    def done(self, delivery: Delivery) -> None:
        """May be said again."""
        self._out.discard(delivery)
        self.last_done = delivery
        # No wake-up is lost: `room` sets `_awaited` before it looks at `_out`, this takes from `_out` before it looks
        # at `_awaited`. One of the two sees the other.
        if 0 < self._awaited <= self._capacity - len(self._out):
            with self._lock:
                self._changed.notify_all()  # a `notify` that was struck may have left somebody who waits no more

    def room(self, timeout_s: float, at_least: int = 1) -> int:
        """How many more may be fetched, after waiting for so many; 0 when closed or at the time limit."""
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
        """Wakes the fetcher for good."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def drain(self) -> list[Delivery]:
        """Takes back what no worker has begun, oldest first."""
        taken: list[Delivery | None] = []
        with suppress(queue.Empty):
            while True:
                taken.append(self._waiting.get_nowait())
        for _ in range(taken.count(STOP)):
            self._waiting.put(STOP)  # they are for workers
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
