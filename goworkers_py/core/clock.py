"""The two clocks: the server's time is for payloads and decisions, the monotonic one for waiting."""

from __future__ import annotations

import time

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def awake_and_asleep() -> float:
    """A clock that goes on while the machine is suspended, unlike the monotonic one on Linux."""
    return time.clock_gettime(_BOOTTIME)


class Clock:
    """Tests pass one of their own that they can turn."""

    def __init__(self) -> None:
        # Server time minus `awake_and_asleep` of this machine. None until the server's time is known: then, and in a
        # program that only pushes jobs, this machine's wall clock has to do.
        self._ahead_s: float | None = None

    def wall(self) -> float:
        """Epoch seconds as the server counts them. A step of this machine's wall clock changes nothing."""
        ahead_s = self._ahead_s
        return time.time() if ahead_s is None else awake_and_asleep() + ahead_s

    def monotonic(self) -> float:
        return time.monotonic()

    def hear(self, server_time: float, asked_at: float, answered_at: float) -> None:
        """The server read its clock between two moments of `awake_and_asleep` of this machine."""
        least, most = server_time - answered_at, server_time - asked_at
        # Any value between the two fits. The one nearest to the last is taken, so the time does not jump to and fro
        # with each round trip.
        ahead_s = most if self._ahead_s is None else self._ahead_s
        self._ahead_s = min(max(ahead_s, least), most)


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
