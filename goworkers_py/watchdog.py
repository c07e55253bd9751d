"""Time limits of jobs, as far as Python allows: a thread cannot be killed, only asked.

At its limit a job's `current_message().expired` turns true and TimeLimitExceeded is thrown into its thread, where it is
raised at the next Python instruction: not inside a call into C that does not return. A job that has not ended some time
after that is stuck: it is reported with its stack, and its manager puts another worker in its place.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import itertools
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from goworkers_py.clock import Clock
from goworkers_py.errors import KillJob, TimeLimitExceeded
from goworkers_py.message import Message
from goworkers_py.middleware.chain import Run
from goworkers_py.outcome import Outcome
from goworkers_py.registry import Registry
from goworkers_py.service import Service

log = logging.getLogger("goworkers_py.job")


@dataclass(eq=False)
class Watched:
    """One run with a limit."""

    message: Message
    why: str
    interruptible: bool
    thread: threading.Thread = field(default_factory=threading.current_thread)
    fired: bool = False
    # Whoever holds it decides: the run is over, or the exception goes into its thread.
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: bool = False

    def fire(self) -> None:
        with self._lock:
            if self._over:
                return
            self.fired = True
            self.message.expired = True
            if not self.interruptible:
                return
            if self.message.interrupt is not None:
                self.message.interrupt()
            else:
                _throw(self.thread, TimeLimitExceeded)

    def end(self) -> None:
        with self._lock:
            self._over = True
            if self.fired:
                _throw(self.thread, None)  # what was thrown and has not arrived must not hit the next job

    @property
    def over(self) -> bool:
        return self._over


class Watchdog(Service):
    def __init__(self, registry: Registry, clock: Clock, grace_s: float, on_stuck: Callable[[Watched], None]) -> None:
        super().__init__("watchdog")
        self._registry = registry
        self._clock = clock
        self._grace_s = grace_s
        self._on_stuck = on_stuck
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Watched]] = []  # a heap: when (monotonic), a number that breaks ties
        self._numbers = itertools.count()

    def link(self, inner: Run) -> Run:
        def run(message: Message) -> Outcome:
            limit = self._limit(message)
            return inner(message) if limit is None else self._watch(message, *limit, inner)

        return run

    def _limit(self, message: Message) -> tuple[float, str] | None:
        """Seconds that this run may take, and the words for it."""
        if not self._registry.any_timeouts and "timeout" not in message and "deadline" not in message:
            return None  # nearly every job
        timeout, deadline = _seconds(message.get("timeout")), _seconds(message.get("deadline"))
        if timeout is None:
            timeout = self._registry.timeout_for(message)
        if deadline is not None:
            left = deadline - self._clock.wall()
            if left <= 0:
                raise KillJob(f"its deadline passed {-left:.0f} s before it could run")
            if timeout is None or left < timeout:
                return left, "ran past its deadline"
        return None if timeout is None else (timeout, f"ran longer than its {timeout:g} s")

    def _watch(self, message: Message, seconds: float, why: str, inner: Run) -> Outcome:
        watched = Watched(message, why, self._registry.may_be_interrupted(message))
        self._add(time.monotonic() + seconds, watched)
        try:
            try:
                return inner(message)
            finally:
                watched.end()
        except (TimeLimitExceeded, asyncio.CancelledError) as error:
            if not watched.fired:
                raise
            raise TimeLimitExceeded(why).with_traceback(error.__traceback__) from None

    def _add(self, due: float, watched: Watched) -> None:
        with self._changed:
            heapq.heappush(self._due, (due, next(self._numbers), watched))
            self._changed.notify()

    def run(self) -> None:
        while not self.stopping.is_set():
            watched = self._next()
            if watched is None or watched.over:
                continue
            if watched.fired:
                self._report(watched)
            else:
                watched.fire()
                self._add(time.monotonic() + self._grace_s, watched)

    def _next(self) -> Watched | None:
        """The next one whose time has come; None when something changed before."""
        with self._changed:
            if self._due and self._due[0][0] <= time.monotonic():
                return heapq.heappop(self._due)[2]
            self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
            return None

    def _report(self, watched: Watched) -> None:
        frame = sys._current_frames().get(watched.thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)).rstrip() if frame else "(no stack)"
        log.error("stuck: %r %s and does not end; its thread %s is at\n%s",
                  watched.message, watched.why, watched.thread.name, stack)  # fmt: skip
        self._on_stuck(watched)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify()


def _throw(thread: threading.Thread, kind: type[BaseException] | None) -> None:
    exception = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), exception)


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
