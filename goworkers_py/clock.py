"""The two clocks: the wall clock is for people and payloads, the monotonic one for waiting."""

from __future__ import annotations

import time


class Clock:
    """Tests pass one of their own that they can turn."""

    def __init__(self) -> None:
        self.offset_s = 0.0  # set by the heartbeat where this machine's clock is far off the server's

    def wall(self) -> float:
        """Epoch seconds as the server counts them."""
        return time.time() + self.offset_s

    def monotonic(self) -> float:
        return time.monotonic()


class Deadline:
    """A moment on the monotonic clock that several waits share."""

    def __init__(self, seconds: float, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._at = self._clock.monotonic() + seconds

    def left(self) -> float:
        return max(0.0, self._at - self._clock.monotonic())

    def shorten(self, seconds: float) -> None:
        """No more than that from now on: 0 for somebody in a hurry."""
        self._at = min(self._at, self._clock.monotonic() + seconds)
