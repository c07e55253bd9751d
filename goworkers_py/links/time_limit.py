"""The link that limits how long a job may run, as far as Python allows: a thread cannot be killed, only asked.

At the limit the watchdog's thread, see `runtime.running.watchdog`, sets `expired` of the job's message and throws
TimeLimitExceeded into the worker's thread, see `core.strikes`. Python raises the exception there at the next Python
instruction: not inside a call of C code that does not return, nor while the thread has a lock of ours. For an async job
the watchdog's thread cancels the asyncio task instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Protocol

from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import KillJob, TimeLimitExceeded
from goworkers_py.core.outcome import Outcome
from goworkers_py.core.strikes import target_of
from goworkers_py.core.values import dataclass
from goworkers_py.links.chain import Run, Wrap
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message, epoch

_NO_LIMIT_S = 1e9


@dataclass(eq=False)
class Watched:
    """One run with a time limit."""

    message: Message
    why: str
    interruptible: bool
    due: float  # monotonic: when the watchdog acts next
    thread: machine.Thread = field(default_factory=lambda: machine.current_thread())
    fired: bool = False
    stuck: bool = False
    over: bool = False
    _reported: bool = False  # set by the watchdog's thread

    def __post_init__(self) -> None:
        target_of(self.thread.ident or 0).reset()

    def fire(self, grace_s: float) -> None:
        target = target_of(self.thread.ident or 0)
        with target.held_up():
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
                target.throw(TimeLimitExceeded)

    @contextmanager
    def kept_from_ending(self) -> Iterator[bool]:
        """In the watchdog's thread: the run does not end meanwhile. False if it has ended."""
        self._reported = True
        try:
            yield not self.over
        finally:
            self._reported = False

    def end(self) -> None:
        """In the worker's thread. A thrown exception arrives here at the latest, and never strikes the next job."""
        self.over = True
        while self._reported:
            machine.sleep(0.001)
        target_of(self.thread.ident or 0).meet()


class Watch(Protocol):
    """Looks at the clock while a job with a time limit runs: the watchdog."""

    def begin(self, watched: Watched) -> None:
        """In the worker's thread, before the run."""

    def end(self, watched: Watched) -> None:
        """In the worker's thread, after the run. May be called twice."""


def time_limit(registry: Registry, clock: Clock, watch: Watch) -> Wrap:
    def wrap(inner: Run) -> Run:
        limited = _Limited(registry, clock, watch, inner)

        def run(message: Message) -> Outcome:
            fields = message.fields
            if not registry.any_timeouts and "timeout" not in fields and "deadline" not in fields:
                return inner(message)  # nearly every job
            return limited.run(message)

        return run

    return wrap


class _Limited:
    def __init__(self, registry: Registry, clock: Clock, watch: Watch, inner: Run) -> None:
        self._registry = registry
        self._clock = clock
        self._watch = watch
        self._inner = inner

    def run(self, message: Message) -> Outcome:
        limit = self._limit(message)
        return self._inner(message) if limit is None else self._run_within(message, *limit)

    def _limit(self, message: Message) -> tuple[float, str] | None:
        """The seconds that this run may take, and the text of the error if it takes longer."""
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

    def _run_within(self, message: Message, seconds: float, why: str) -> Outcome:
        interruptible = self._registry.may_be_interrupted(message)
        watched = Watched(message, why, interruptible, due=machine.monotonic() + seconds)
        try:
            try:
                self._watch.begin(watched)
                return self._inner(message)
            finally:
                self._watch.end(watched)
        except BaseException as error:
            self._watch.end(watched)  # again: the exception may have broken off the call above
            if watched.fired and isinstance(error, TimeLimitExceeded | asyncio.CancelledError):
                raise TimeLimitExceeded(why).with_traceback(error.__traceback__) from None
            raise


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _NO_LIMIT_S:
        return None
    return float(value)
