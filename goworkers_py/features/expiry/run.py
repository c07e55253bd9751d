"""Drops a job that was not begun by its `expires_at`. It is no run: no link, no retry and no error handler sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from goworkers_py.core.outcome import EXPIRED, Outcome
from goworkers_py.features.expiry.api import handlers_of
from goworkers_py.features.expiry.payload import EXPIRIES
from goworkers_py.features.in_process import InProcess
from goworkers_py.links.chain import Run
from goworkers_py.links.handlers import tell
from goworkers_py.observe.counters import Counters
from goworkers_py.policy import poison
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.running.rungs import CAME_AGAIN, RENEWED, Rung
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")


class ExpiringRuns(InProcess):
    def __init__(self, registry: Registry, counters: Counters, wall: Callable[[], float]) -> None:
        self._registry = registry
        self._counters = counters
        self._wall = wall

    def rungs(self) -> Mapping[str, Rung]:
        return {
            "expiry": Rung(self._run, frozenset((RENEWED,)), EXPIRIES),
            # A suspect waits to run alone.
            "expiry again": Rung(self._run, frozenset((CAME_AGAIN,)), frozenset((poison.FIELD,))),
        }

    def _run(self, run: Run, message: Message) -> Outcome:
        return run(message) if EXPIRIES.isdisjoint(message.fields) else self.dropped(message) or run(message)

    def dropped(self, message: Message) -> Outcome | None:
        """The outcome of a job whose time has passed; None for any other job."""
        expires_at = message.expires_at
        if expires_at is None:
            log.warning("its expires_at is no time in epoch seconds: the job does not expire")
            return None
        late_s = self._wall() - expires_at
        if late_s <= 0:
            return None
        log.info("expired: not begun by its expires_at, and not run", extra={"late": round(late_s, 3)})
        self._counters.add("expired")
        tell(handlers_of(self._registry), message)
        return EXPIRED
