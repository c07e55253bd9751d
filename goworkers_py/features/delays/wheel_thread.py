"""The thread that turns the wheel. It calls no persistence and no code of the user, so it never waits for either."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.features.delays.timers import Timers
from goworkers_py.runtime.service import Service


class WheelThread(Service):
    """Moves what is due from the wheel into the lines."""

    def __init__(self, timers: Timers, tick: float, now: Callable[[], float]) -> None:
        super().__init__("delay wheel")
        self._timers = timers
        self._tick = tick
        self._now = now

    def run(self) -> None:
        # The wait is by the monotonic clock, which stands while the machine sleeps; `now` goes on. So the first tick
        # after the sleep finds everything that became due.
        while not self.stopping.wait(self._tick - self._now() % self._tick):
            self._timers.tick(self._now())
