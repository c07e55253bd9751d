"""An outage of the server, as one process sees it: one error line when it begins, one line when it ends.

Many threads meet the same outage; each asks here how long to back off. A server that serves, but refuses what one
thread asks (a key of the wrong type, a missing permission), is no outage: that thread has a pair of lines of its own.
"""

from __future__ import annotations

import logging
import random
import threading
import time

from goworkers_py.core.errors import BrokerError, BrokerUnavailable

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
# With the longest that a lost connection goes unnoticed it stays below 10 s until all is as before.
LONGEST_PAUSE_S = 3.0


class Outage:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Who fails, how often in a row. A thread is in one of them at the most.
        self._cut_off: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._told = False  # of the outage that lasts
        self._began = 0.0
        self._ended = 0.0  # the last one that was told
        self._lasted_s = 0.0  # all that have ended, together

    def failed(self, who: str, error: BrokerError) -> float:
        """Counts a failure of `who`; returns the seconds to wait before the next try."""
        outage = isinstance(error, BrokerUnavailable)
        with self._lock:
            book, other = (self._cut_off, self._refused) if outage else (self._refused, self._cut_off)
            # An exchange that began before the last outage ended, and times out now, is a part of that one.
            begins = not self._told and error.began >= self._ended if outage else who not in book
            book[who] = failures = book.get(who, 0) + other.pop(who, 0) + 1
            if begins and outage:
                self._told = True
                self._began = time.monotonic()
        if begins:
            line = "Redis cannot serve: %s; trying again until it does" if outage else f"{who}: Redis refuses: %s"
            log.error(line, error)
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
        return random.uniform(longest / 2, longest)

    def recovered(self, who: str) -> None:
        if self._cut_off or self._refused:  # a look without the lock: this is on the fetcher's path
            self._end(who, tell=True)

    def forget(self, who: str) -> None:
        """`who` has stopped and will not try again."""
        self._end(who, tell=False)

    def _end(self, who: str, tell: bool) -> None:
        with self._lock:
            ends = self._cut_off.pop(who, None) is not None and not self._cut_off and self._told
            if ends:
                self._told = False
                self._ended = time.monotonic()
                self._lasted_s += self._ended - self._began
            granted = self._refused.pop(who, None) is not None
        if ends and tell:
            log.warning("Redis serves again after %.1f s", self._ended - self._began)
        if granted and tell:
            log.warning("%s: Redis refuses no more", who)

    @property
    def total_s(self) -> float:
        with self._lock:
            return self._lasted_s + (time.monotonic() - self._began if self._told else 0.0)

    @property
    def lasts(self) -> bool:
        return bool(self._cut_off)
