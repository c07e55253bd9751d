"""The hand-over of a delivery from the local buffer to a worker's hand, and the end of the delivery there.

An exception may be thrown into a worker's thread between any two instructions (a time limit, a debugger, a library).
Such an exception must not lose a delivery, run a job twice or leave a lock locked. Therefore:

1. `take` moves a delivery from the buffer into the hand by one call of C code: `list.extend` over an iterator of
   `SimpleQueue.get`. No exception strikes inside this call, so the delivery is either in the buffer or in the hand.
2. While a delivery is in the hand, `take` returns the same delivery again. A worker whose `run` was broken off starts
   `run` again, gets that delivery, and reads from its stage what to do. `FETCHED`: run the job. `BEGUN`: it failed.
   `KEPT`, `ENDED`: only `release` is left, because the settler knows how the run ended.
3. `release` first calls `Buffer.done`, then empties the hand by one call of C code. If an exception strikes before the
   hand is empty, the worker calls `release` again: `Buffer.done` may be called twice for one delivery.
"""

from __future__ import annotations

import itertools
import queue
from collections.abc import Callable

from goworkers_py.core.delivery import Delivery
from goworkers_py.runtime.fetching.buffer import STOP, Buffer


class Hand:
    """Belongs to one worker, whose thread alone changes `_held`. Other threads may read it."""

    def __init__(self, buffer: Buffer, get: Callable[[], Delivery | None] | None = None) -> None:
        """`get` is that of the buffer, or another function of C code that gets a delivery out of it."""
        self._buffer = buffer
        self._source = iter(get or buffer.get, STOP)
        self._held: list[Delivery] = []  # one delivery at most

    def take(self) -> Delivery | None:
        """The delivery to run; None when this worker should end."""
        held = self._held
        if not held:
            held.extend(itertools.islice(self._source, 1))
        return held[0] if held else None

    def release(self) -> None:
        held = self._held
        self._buffer.done(held[0])
        held.clear()

    @property
    def held(self) -> Delivery | None:
        """From any thread."""
        return next(iter(self._held[:]), None)


class SerialHand(Hand):
    """Takes what waits in the buffer, and waits for nothing: `take` returns None when the buffer is empty."""

    def __init__(self, buffer: Buffer) -> None:
        super().__init__(buffer, buffer.get_now)

    def take(self) -> Delivery | None:
        try:
            return super().take()
        except queue.Empty:
            return None
