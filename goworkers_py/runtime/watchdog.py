"""Time limits of jobs, as far as Python allows: a thread cannot be killed, only asked.

At its limit a job's `current_message().expired` turns true and TimeLimitExceeded is thrown into its thread, where it is
raised at the next Python instruction: not inside a call into C that does not return. A job that has not ended some time
after that is stuck: it is reported with its stack, and its manager puts another worker in its place.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import KillJob, TimeLimitExceeded
from goworkers_py.core.outcome import Outcome
from goworkers_py.links.chain import Run
from goworkers_py.observe.log_format import log_with_stack
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.service import Service
from goworkers_py.wire.message import Message, epoch

log = logging.getLogger("goworkers_py.job")

LOOK_EVERY_S = 5.0


@dataclass(eq=False)
class Watched:
    """One run with a limit."""

    message: Message
    why: str
    interruptible: bool
    due: float  # monotonic: when something is to be done about it
    thread: threading.Thread = field(default_factory=threading.current_thread)
    fired: bool = False
    stuck: bool = False
    over: bool = False
    # Whoever holds it decides: the run is over, or the exception goes into its thread.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fire(self, grace_s: float) -> None:
        with self.lock:
            if self.over:
                return
            self.fired = True
            self.due += grace_s
            self.message.expired = True
            interrupt = self.message.interrupt
            if not self.interruptible:
                return
            if interrupt is not None:
                interrupt()
            else:
                kind = ctypes.py_object(TimeLimitExceeded)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread.ident or 0), kind)

    def end(self) -> None:
        """In the run's thread. What was thrown into it arrives here at the latest, and never hits the next job."""
        with self.lock:
            self.over = True
        if self.fired:
            # The interpreter raises what is pending at a jump back. Taking it back instead would leave the interpreter
            # looking for it for ever (up to 3.12), and a traced one, as under coverage, would do nothing else.
            for _ in range(2):
                pass


class Watchdog(Service):
    """Its thread also calls `look_after` now and then."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        grace_s: float,
        on_stuck: Callable[[Watched, int], None],
        look_after: Callable[[], None],
    ) -> None:
        super().__init__("watchdog")
        self._registry = registry
        self._clock = clock
        self._grace_s = grace_s
        self._on_stuck = on_stuck
        self._look_after = look_after
        # Both under the lock. Workers use nothing but it and the queue, whose steps no exception can split.
        self._lock = threading.Lock()
        self._running: set[Watched] = set()
        self._next_look = -math.inf  # monotonic
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()

    def link(self, inner: Run) -> Run:
        registry = self._registry

        def run(message: Message) -> Outcome:
            fields = message.fields
            if not registry.any_timeouts and "timeout" not in fields and "deadline" not in fields:
                return inner(message)  # nearly every job
            limit = self._limit(message)
            return inner(message) if limit is None else self._watch(message, *limit, inner)

        return run

    def _limit(self, message: Message) -> tuple[float, str] | None:
        """Seconds that this run may take, and the words for it."""
        timeout, deadline = _seconds(message.get("timeout")), epoch(message.get("deadline"))
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
        interruptible = self._registry.may_be_interrupted(message)
        watched = Watched(message, why, interruptible, due=time.monotonic() + seconds)
        try:
            try:
                self._begin(watched)
                return inner(message)
            finally:
                self._end(watched)
        except BaseException as error:
            self._end(watched)  # again, as the exception may have struck in the midst of it
            if watched.fired and isinstance(error, TimeLimitExceeded | asyncio.CancelledError):
                raise TimeLimitExceeded(why).with_traceback(error.__traceback__) from None
            raise

    def _begin(self, watched: Watched) -> None:
        with self._lock:
            self._running.add(watched)
            too_late = watched.due < self._next_look
        if too_late:
            self._woken.put(None)

    def _end(self, watched: Watched) -> None:
        watched.end()
        with self._lock:
            self._running.discard(watched)

    def run(self) -> None:
        while not self.stopping.is_set():
            self._look_after()
            for watched in self._now_due():
                if watched.fired:
                    self._report(watched)
                else:
                    watched.fire(self._grace_s)
            with suppress(queue.Empty):
                self._woken.get(timeout=self._until_next_look())

    def _now_due(self) -> list[Watched]:
        now = time.monotonic()
        with self._lock:
            return [watched for watched in self._running if watched.due <= now]

    def _until_next_look(self) -> float:
        now = time.monotonic()
        with self._lock:
            self._next_look = min([now + LOOK_EVERY_S, *(watched.due for watched in self._running)])
            return max(0.0, self._next_look - now)

    def _report(self, watched: Watched) -> None:
        with watched.lock:  # while it is held, the thread cannot go on to its next job
            if watched.over:
                return
            watched.stuck, watched.due = True, math.inf
            frame = sys._current_frames().get(watched.thread.ident or 0)
            stack = "".join(traceback.format_stack(frame)).rstrip() if frame else "(no stack)"
            log_with_stack(log, logging.ERROR, stack, "stuck: %r %s and does not end; its thread %s is at",
                           watched.message, watched.why, watched.thread.name)  # fmt: skip
            with self._lock:
                stuck = sum(other.stuck for other in self._running)
            self._on_stuck(watched, stuck)

    @property
    def stuck(self) -> set[str]:
        """The threads whose job is stuck. From any thread."""
        with self._lock:
            return {watched.thread.name for watched in self._running if watched.stuck}

    def wake(self) -> None:
        self._woken.put(None)


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _NO_LIMIT_S:
        return None
    return float(value)


_NO_LIMIT_S = 1e9
