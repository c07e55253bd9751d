"""Answers of the broker that several pages share for a moment, so that many open pages cost no more than one.

A value that is too old is computed anew in a thread. A request waits for it, but not long: a count over a million jobs
must not hold up its page, which shows the former value with its age, or says that the jobs are being counted.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from goworkers_py.core.values import dataclass

T = TypeVar("T")

# Names hold what people typed into a query.
MOST = 500
MOST_AT_ONCE = 50  # computations: who looks for many jids at once must not fill the process with threads
SOON_S = 5.0  # values of this age are cheap to compute
KEPT_BY_COST = 100  # a value is kept for so many times what it took to compute: that is one percent of a thread
FORGOTTEN = -1e9  # a time before all others


@dataclass(slots=True)
class PageSnapshot(Generic[T]):
    value: T | None = None  # None until the first computation has ended
    at: float = 0.0  # when it was computed, epoch seconds
    error: Exception | None = None  # of the last computation

    @property
    def age_s(self) -> float:
        return max(0.0, time.time() - self.at)


class _Computation(Generic[T]):
    """The value of one name. The lock is that of Snapshots."""

    def __init__(self) -> None:
        self.last: PageSnapshot[T] = PageSnapshot()
        self.tried_at = FORGOTTEN  # monotonic
        self.max_age_s = 0.0
        self.took_s = 0.0
        self.ended: threading.Event | None = None  # of the computation that runs


class Snapshots:
    """Threads share it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._known: dict[str, _Computation[object]] = {}  # under the lock, as is the next
        self._running = 0  # computations

    def get(self, name: str, max_age_s: float, compute: Callable[[], T], wait_s: float = 10.0) -> PageSnapshot[T]:
        """The value, at most `max_age_s` old if it can be computed within `wait_s`; else the last one. One that is
        computed quickly is newer: a page must not say for a minute that nothing has failed, when ten jobs have."""
        self._check_pid()
        until = time.monotonic() + wait_s
        known, is_of_before = self._await(name, max_age_s, compute, until)
        if is_of_before:
            known, _ = self._await(name, max_age_s, compute, until)
        return known.last  # type: ignore[return-value]

    def _await(
        self, name: str, max_age_s: float, compute: Callable[[], object], until: float
    ) -> tuple[_Computation[object], bool]:
        """The second result: the computation for which this has waited had begun before a change."""
        with self._lock:
            known = self._known_as(name)
            known.max_age_s = max_age_s
            self._begin(known, name, compute)
            ended, is_of_before = known.ended, known.ended is not None and known.tried_at == FORGOTTEN
        if ended is not None:
            ended.wait(max(0.0, until - time.monotonic()))
        return known, is_of_before

    def _begin(self, known: _Computation[object], name: str, compute: Callable[[], object]) -> None:
        """Under the lock. Each name has one thread at a time, also after a change."""
        max_age_s = min(known.max_age_s, max(SOON_S, KEPT_BY_COST * known.took_s))
        is_old = time.monotonic() - known.tried_at > max_age_s
        if is_old and known.ended is None and self._running < MOST_AT_ONCE:
            ended = threading.Event()
            threading.Thread(
                target=self._compute, args=(known, compute, ended), name=f"pages:{name[:40]}", daemon=True
            ).start()
            # Behind the start, which may fail: for an end that never comes, each page would wait.
            known.tried_at, known.ended = time.monotonic(), ended
            self._running += 1

    def forget(self) -> None:
        """After a change: the next page must show it. A count that takes long is not made anew."""
        self._check_pid()
        with self._lock:
            for known in self._known.values():
                if known.max_age_s <= SOON_S:
                    known.tried_at = FORGOTTEN

    def _check_pid(self) -> None:
        if self._pid != os.getpid():  # a server has forked: its threads, and locks that they held, are not here
            self.__init__()  # type: ignore[misc]

    def _known_as(self, name: str) -> _Computation[object]:
        known = self._known.pop(name, None) or _Computation()
        self._known[name] = known  # the last used ones are at the end
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return known

    def _compute(self, known: _Computation[object], compute: Callable[[], object], ended: threading.Event) -> None:
        began = time.monotonic()
        try:
            made = PageSnapshot(compute(), time.time())
        except Exception as error:
            made = PageSnapshot(known.last.value, known.last.at, error)
        with self._lock:
            known.last, known.ended, known.took_s = made, None, time.monotonic() - began
            self._running -= 1
        ended.set()
