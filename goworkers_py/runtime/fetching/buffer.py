"""The local queue between the fetcher of a pool and its workers."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.core.strikes import lock_outside_runs

STOP: Final = None

# Gets the deliveries that wait, in order. Returns those that stay, in their new order, and those that are taken back.
Arrange = Callable[[list[Delivery]], tuple[list[Delivery], list[Delivery]]]


class Buffer:
    """The local queue between one fetcher and its workers, bounded by how many deliveries may be out at once.

    A delivery is out from `put` until `done` or `take_back`: while it waits here and while a worker runs it. The
    fetcher's thread waits in `room` until a worker has finished a delivery.

    Workers call `get` and `done` for every job. They take `_lock`, which no thrown exception leaves taken, see
    `hand_over` and `core.strikes`; a Condition has a lock of its own. A worker that loses the interpreter while it has
    `_lock` stops all others, so `done` takes `_lock` only when it has made the room that the fetcher waits for.

    The order changes only by `rearrange`: it takes all waiting deliveries out and puts them in again, under `_lock`, so
    that no other thread puts or rearranges meanwhile. Workers need no `_lock` for `get`. Meanwhile a worker gets a
    delivery that was in front, or waits for a moment. So at every instant a delivery is in `_waiting`, in the hand of
    a worker, or in the list of the thread that rearranges. No exceptions are thrown into that thread: it is that of the
    fetcher, of a pause or of a stop, or a worker's thread before the time limit of a suspect begins.
    """

    def __init__(self, capacity: int) -> None:
        # SimpleQueue is written in C: a hand-over through queue.Queue costs three times as much.
        self._waiting: machine.SimpleQueue[Delivery | None] = machine.SimpleQueue()
        self.get = self._waiting.get  # returns the next delivery to run, or STOP when the worker should end
        self.get_now = self._waiting.get_nowait  # the same, but raises queue.Empty where `get` would wait
        lock = machine.Lock()
        self._lock = lock_outside_runs(lock)
        self._changed = machine.Condition(lock)
        self.capacity = capacity  # changed by the fetcher's thread
        self._awaited = 0  # how much room the fetcher's thread waits for; 0 while it does not wait
        self._out: set[Delivery] = set()  # used by any thread, also without the lock: each change is one step of C code
        self.last_done: Delivery | None = None  # set by `done`; the fetcher compares it: has a job ended since?
        self._closed = False
        self._stops = 0  # STOPs in `_waiting` that no worker has taken; under the lock
        self._expected = 0  # number of calls of `expect_room`, by the fetcher's thread
        self._rung_for = 0  # for which of these calls a worker's thread has rung
        # Called in a worker's thread when there is room that was announced with `expect_room`. The constructor of
        # `PoolFetcher` sets it, because it ends a wait of that fetcher, which is built after its buffer.
        self.ring: Callable[[], None] | None = None

    def put(self, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            self._out.update(deliveries)
            deque(map(self._waiting.put, deliveries), maxlen=0)  # a loop in C

    def put_by_rank(self, deliveries: Sequence[Delivery], rank: Callable[[Delivery], int]) -> None:
        """Puts them before the waiting deliveries of a higher rank number, behind those of the same."""
        self._out.update(deliveries)
        self.rearrange(lambda waiting: (sorted([*waiting, *deliveries], key=rank), []))

    def done(self, delivery: Delivery) -> None:
        """In a worker's thread. May be called twice for one delivery."""
        self._out.discard(delivery)
        self.last_done = delivery
        # No wake-up is lost: the fetcher's thread (in `room`) sets `_awaited` before it reads `_out`; a worker's thread
        # (here) changes `_out` before it reads `_awaited`. So at least one of the two sees the other's change.
        if 0 < self._awaited <= self.capacity - len(self._out):
            with self._lock:
                # Not `notify`: it might wake a stale waiter, left by an earlier call that an exception broke off.
                self._changed.notify_all()
                if self.ring is None:
                    self._awaited = 0  # it is awake now: no other worker needs to wake it, see `room`
            if self.ring is not None:
                self._ring_once(self.ring)

    def _ring_once(self, ring: Callable[[], None]) -> None:
        """A ring costs a call of the system, and until the fetcher's thread gets the interpreter many jobs may end."""
        expected = self._expected
        if self._rung_for != expected:
            ring()
            # After the ring, so that an exception in between makes no worker silent. `expected` was read before it: a
            # worker that comes here late does not silence the ring for a later call of `expect_room`.
            self._rung_for = expected

    def expect_room(self, at_least: int) -> int:
        """Like `room`, but does not wait: when it returns 0, a worker rings as soon as there is room for `at_least`."""
        self._expected += 1
        self._awaited = at_least  # before `_out` is read, see `done`
        room = self.capacity - len(self._out)
        if room < at_least or self._closed:
            return 0
        self._awaited = 0
        return room

    def room(self, timeout_s: float, at_least: int = 1) -> int:
        """Waits until `at_least` more may be fetched. Returns how many may be; 0 when closed or at the time limit."""

        def enough_or_closed() -> bool:
            self._awaited = at_least  # again at each look: the worker that has woken this thread has set it to 0
            return self._closed or self.capacity - len(self._out) >= at_least

        with self._changed:
            enough = self._changed.wait_for(enough_or_closed, timeout_s)
            self._awaited = 0
            return self.capacity - len(self._out) if enough and not self._closed else 0

    def resize(self, capacity: int) -> None:
        with self._changed:
            self.capacity = capacity
            self._changed.notify_all()

    def close(self) -> None:
        """Wakes the fetcher: `room` does not wait from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take_back(self, queues: Collection[str] | None = None) -> list[Delivery]:
        """Takes back the deliveries that no worker has taken, oldest first: all, or those of certain queues."""
        if queues is None:
            return self.rearrange(lambda waiting: ([], waiting))
        return self.rearrange(
            lambda waiting: (
                [delivery for delivery in waiting if delivery.queue not in queues],
                [delivery for delivery in waiting if delivery.queue in queues],
            )
        )

    def rearrange(self, arrange: Arrange) -> list[Delivery]:
        """Returns the deliveries that were taken back."""
        taken: list[Delivery | None] = []
        with self._lock:
            with suppress(queue.Empty):
                while True:
                    taken.append(self._waiting.get_nowait())
            stay, back = arrange([delivery for delivery in taken if delivery is not None])
            for delivery in stay:
                self._waiting.put(delivery)
            for _ in range(taken.count(STOP)):
                self._waiting.put(STOP)  # for the workers, which end at it
            self._out.difference_update(back)
            self._changed.notify_all()
        return back

    def stop_workers(self, how_many: int) -> None:
        with self._lock:
            self._stops += how_many
        for _ in range(how_many):
            self._waiting.put(STOP)

    def worker_stopped(self) -> None:
        """In the thread of a worker that has taken a STOP."""
        with self._lock:
            self._stops -= 1

    @property
    def out(self) -> int:
        return len(self._out)

    def __len__(self) -> int:
        return max(0, self._waiting.qsize() - self._stops)
