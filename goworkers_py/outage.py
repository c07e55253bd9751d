"""An outage of the server, as one process sees it: one error line when it begins, one line when it ends.

Many threads meet the same outage; each asks here how long to back off.
"""

from __future__ import annotations

import logging
import random
import threading
import time

from goworkers_py.errors import BrokerError

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
# With the longest that a lost connection goes unnoticed it stays below 10 s until all is as before.
LONGEST_PAUSE_S = 3.0


class Outage:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[str, int] = {}
        self._began = 0.0

    def failed(self, who: str, error: BrokerError) -> float:
        """Counts a failure of `who`; returns the seconds to wait before the next try."""
        with self._lock:
            begins = not self._failures
            self._failures[who] = failures = self._failures.get(who, 0) + 1
            if begins:
                self._began = time.monotonic()
        if begins:
            log.error("Redis cannot serve: %s; trying again until it does", error)
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
        return random.uniform(longest / 2, longest)

    def recovered(self, who: str) -> None:
        if self._failures:  # a look without the lock: this is on the fetcher's path
            self._end(who, "Redis serves again after %.1f s")

    def forget(self, who: str) -> None:
        """`who` has stopped and will not try again."""
        self._end(who, "")

    def _end(self, who: str, line: str) -> None:
        with self._lock:
            was_failing = self._failures.pop(who, None) is not None
            ends = was_failing and not self._failures
        if ends and line:
            log.warning(line, time.monotonic() - self._began)

    @property
    def lasts(self) -> bool:
        return bool(self._failures)
