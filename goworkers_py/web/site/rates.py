"""Limits how many changes a user makes in a time: a program that has gone wild must not stop a fleet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from goworkers_py.web.http.errors import Refused

PER_S, BURST = 50.0, 200.0
MOST_USERS = 10_000


class Rates:
    """A bucket of tokens for each user. Threads share it."""

    def __init__(self, per_s: float = PER_S, burst: float = BURST, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when they were counted

    def take(self, user: str) -> None:
        """Refuses a change of a user who makes too many."""
        now = self._clock()
        with self._lock:
            tokens, counted_at = self._buckets.pop(user, (self._burst, now))
            tokens = min(self._burst, tokens + (now - counted_at) * self._per_s)
            # A refused change takes nothing: who goes on too fast still makes as many changes as are allowed.
            self._buckets[user] = (tokens - 1 if tokens >= 1 else tokens), now
            while len(self._buckets) > MOST_USERS:
                del self._buckets[next(iter(self._buckets))]
        if tokens < 1:
            reason = f"more than {self._per_s:g} changes a second: wait a moment"
            raise Refused(429, reason, (("Retry-After", "1"),))
