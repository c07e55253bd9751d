"""Slows down who guesses passwords: after some failed logins of an address, it has to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from goworkers_py.web.http.errors import Refused

MOST, WITHIN_S = 10, 60.0
MOST_ADDRESSES = 10_000


class FailedLogins:
    """Threads share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_address: dict[str, tuple[float, int]] = {}  # when the first one was, and how many

    def check(self, address: str) -> None:
        """Refuses the next login of an address with too many failed ones."""
        with self._lock:
            since, count = self._by_address.get(address, (0.0, 0))
            wait_s = since + WITHIN_S - self._clock()
        if count >= MOST and wait_s > 0:
            after = ("Retry-After", str(int(wait_s) + 1))
            raise Refused(429, f"too many failed logins from {address}: wait {wait_s:.0f} s", (after,))

    def add(self, address: str) -> None:
        now = self._clock()
        with self._lock:
            since, count = self._by_address.pop(address, (now, 0))
            if now - since > WITHIN_S:
                since, count = now, 0
            self._by_address[address] = since, count + 1
            while len(self._by_address) > MOST_ADDRESSES:
                del self._by_address[next(iter(self._by_address))]
