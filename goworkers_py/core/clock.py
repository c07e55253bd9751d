"""The two clocks: the server's time is for payloads and decisions, the monotonic clock is for waiting."""

from __future__ import annotations

from goworkers_py.core import machine

# Clocks drift apart by no more than this, because programs that correct a clock slew it by 500 ppm at most. A larger
# change is a step.
MOST_DRIFT = 500e-6


class Clock:
    """Wall time as one server counts it, and monotonic time. Each partition has its own, because servers differ. Tests
    pass a clock that they set by hand.

    An answer of the server proves an interval, as long as the round trip, in which its clock stands. `wall` is the
    begin of that interval, so that nothing is due or expired early. `at_latest` is its end: from it due times are
    counted, so that "in 40 s" is never sooner.
    """

    def __init__(self) -> None:
        # The least that server time minus `awake_and_asleep` of this machine may be. None until a first `synchronize`,
        # and always None in a program that only pushes jobs: `wall` then reads this machine's wall clock.
        self._ahead_s: float | None = None
        self._spread_s = 0.0  # by how much that difference may be larger
        self._answered_at = 0.0
        self.travelled_s = 0.0  # see `travel`

    def wall(self) -> float:
        """Epoch seconds as the server counts them. A step of this machine's wall clock changes nothing."""
        ahead_s = self._ahead_s
        return machine.time() + self.travelled_s if ahead_s is None else machine.awake_and_asleep() + ahead_s

    def at_latest(self) -> float:
        """The server's clock does not show more than this."""
        return self.wall() + self._spread_s

    def travel(self, travelled_s: float) -> None:
        """For tests of jobs: from now on the wall clock shows the time of this machine plus `travelled_s`."""
        self._ahead_s, self._spread_s, self.travelled_s = None, 0.0, travelled_s

    def monotonic(self) -> float:
        return machine.monotonic()

    def synchronize(self, server_time: float, asked_at: float, answered_at: float) -> None:
        """The server's clock showed `server_time` at some point between `asked_at` and `answered_at`, both read from
        `awake_and_asleep` on this machine."""
        least, most = server_time - answered_at, server_time - asked_at
        # The true difference lies between `least` and `most`, and where earlier answers have put it, unless the clocks
        # have drifted. Where these two exclude each other, the server's clock was set: only this answer counts.
        if self._ahead_s is not None:
            drift_s = MOST_DRIFT * max(0.0, answered_at - self._answered_at)
            low, high = self._ahead_s - drift_s, self._ahead_s + self._spread_s + drift_s
            if least <= high and low <= most:
                least, most = max(least, low), min(most, high)
        # Two threads may do this at a time. Each leaves what its own answer proves.
        self._ahead_s, self._spread_s, self._answered_at = least, most - least, answered_at


class Deadline:
    """A point on the monotonic clock that several waits share."""

    def __init__(self, seconds: float, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._at = self._clock.monotonic() + seconds
        self._lock = machine.Lock()  # while `_at` changes

    def left(self) -> float:
        return max(0.0, self._at - self._clock.monotonic())

    def shorten(self, seconds: float) -> None:
        """At most `seconds` are left from now on. 0 ends every wait."""
        with self._lock:
            self._at = min(self._at, self._clock.monotonic() + seconds)
