"""The two clocks: the server's time is for payloads and decisions, the monotonic clock is for waiting."""

from __future__ import annotations

import threading
import time
from functools import partial

# Seconds on a clock that goes on while the machine is suspended; Linux's monotonic clock stops then. Not a function of
# our own, because every job asks it several times.
awake_and_asleep = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock:
    """Wall time as the server counts it, and monotonic time. Tests pass a clock that they set by hand."""

    def __init__(self) -> None:
        # Server time minus `awake_and_asleep` of this machine. None until a first `synchronize`, and always None in a
        # program that only pushes jobs: `wall` then reads this machine's wall clock.
        self._ahead_s: float | None = None
        self.travelled_s = 0.0  # see `travel`

    def wall(self) -> float:
        """Epoch seconds as the server counts them. A step of this machine's wall clock changes nothing."""
        ahead_s = self._ahead_s
        return time.time() + self.travelled_s if ahead_s is None else awake_and_asleep() + ahead_s

    def travel(self, travelled_s: float) -> None:
        """For tests of jobs: from now on the wall clock shows the time of this machine plus `travelled_s`."""
        self._ahead_s, self.travelled_s = None, travelled_s

    def monotonic(self) -> float:
        return time.monotonic()

    def synchronize(self, server_time: float, asked_at: float, answered_at: float) -> None:
        """The server's clock showed `server_time` at some point between `asked_at` and `answered_at`, both read from
        `awake_and_asleep` on this machine."""
        least, most = server_time - answered_at, server_time - asked_at
        # The true difference lies between `least` and `most`. The value nearest to the previous difference is taken, so
        # that the time does not jump back and forth with the length of each round trip.
        ahead_s = most if self._ahead_s is None else self._ahead_s
        self._ahead_s = min(max(ahead_s, least), most)


class Deadline:
    """A point on the monotonic clock that several waits share."""

    def __init__(self, seconds: float, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._at = self._clock.monotonic() + seconds
        self._lock = threading.Lock()  # while `_at` changes

    def left(self) -> float:
        return max(0.0, self._at - self._clock.monotonic())

    def shorten(self, seconds: float) -> None:
        """At most `seconds` are left from now on. 0 ends every wait."""
        with self._lock:
            self._at = min(self._at, self._clock.monotonic() + seconds)
