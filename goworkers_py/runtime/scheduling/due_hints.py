"""Wakes the scheduler when this process itself adds a job to the scheduled ones or to the retries."""

from __future__ import annotations

import math
import queue
from contextlib import suppress

from goworkers_py.core import machine


class DueHints:
    """`scheduled` is called by settlers, and by any thread that pushes. Only the scheduler's thread waits.

    A job pushes in a worker's thread, into which an exception may be thrown. So `scheduled` is made of single calls of
    C code, see `hand_over`.
    """

    def __init__(self) -> None:
        self._hints: machine.SimpleQueue[None] = machine.SimpleQueue()
        self._sleeps_until = -math.inf  # epoch seconds; -inf before the scheduler's first look and after its last

    def scheduled(self, at: float) -> None:
        """A job is due at `at`: the scheduler looks again at once if `at` is before its next look."""
        if at < self._sleeps_until:
            self._hints.put(None)

    def begin_look(self) -> None:
        """A job that is added from now on ends the next `wait`, whenever the job is due."""
        self._sleeps_until = math.inf
        with suppress(queue.Empty):
            while True:
                self._hints.get_nowait()

    def sleep_until(self, at: float) -> None:
        """The look is over, and the next look is at `at`."""
        self._sleeps_until = at

    def end(self) -> None:
        """No look comes any more, so nobody needs a hint."""
        self._sleeps_until = -math.inf

    def wait(self, seconds: float) -> None:
        with suppress(queue.Empty):
            self._hints.get(timeout=max(0.0, seconds))

    def wake(self) -> None:
        self._hints.put(None)
