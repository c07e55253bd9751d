"""The thread that watches the time limits of running jobs, see `links.time_limit`.

A job that has not ended some time after its limit is stuck: the watchdog logs its stack, and `StuckJobs` starts another
worker in the place of the stuck one.
"""

from __future__ import annotations

import logging
import math
import queue
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from goworkers_py.core import machine
from goworkers_py.core.strikes import Lock
from goworkers_py.links.time_limit import Watched
from goworkers_py.observe.log_format import log_with_stack
from goworkers_py.runtime.service import Service

log = logging.getLogger("goworkers_py.job")


class Watchdog(Service):
    """Its thread also calls `look_after`, at least every `look_every_s`."""

    look_every_s = 5.0

    def __init__(
        self,
        grace_s: float,
        on_stuck: Callable[[Watched, int], None],
        look_after: Callable[[], None],
    ) -> None:
        super().__init__("watchdog")
        self._grace_s = grace_s
        self._on_stuck = on_stuck
        self._look_after = look_after
        # `_running` and `_next_look` are used under `_lock`. Workers use only `_lock` and `_woken`: no exception can
        # strike inside their steps.
        self._lock = Lock()
        self._running: set[Watched] = set()
        self._next_look = -math.inf  # monotonic
        self._woken: machine.SimpleQueue[None] = machine.SimpleQueue()

    def begin(self, watched: Watched) -> None:
        with self._lock:
            self._running.add(watched)
            too_late = watched.due < self._next_look
        if too_late:
            self._woken.put(None)

    def end(self, watched: Watched) -> None:
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
        now = machine.monotonic()
        with self._lock:
            return [watched for watched in self._running if watched.due <= now]

    def _until_next_look(self) -> float:
        now = machine.monotonic()
        with self._lock:
            self._next_look = min([now + self.look_every_s, *(watched.due for watched in self._running)])
            return max(0.0, self._next_look - now)

    def _report(self, watched: Watched) -> None:
        with watched.kept_from_ending() as runs:  # the job's thread cannot go on to its next job
            if not runs:
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
