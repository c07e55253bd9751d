"""Drops a job that was not begun by its `expires_at`. It is no run: no link, no retry and no error handler sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from goworkers_py.core import machine
from goworkers_py.core.outcome import EXPIRED, Outcome
from goworkers_py.core.values import dataclass
from goworkers_py.links.handlers import Handlers
from goworkers_py.observe.counters import Counters
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")


@dataclass(frozen=True)
class Expiry:
    handlers: Handlers
    run_stats: RunStats
    counters: Counters
    wall: Callable[[], float] = lambda: machine.time()

    def dropped(self, message: Message) -> Outcome | None:
        """The outcome of a job whose time has passed; None for any other job."""
        expires_at = message.expires_at
        if expires_at is None:
            log.warning("its expires_at is no time in epoch seconds: the job does not expire")
            return None
        late_s = self.wall() - expires_at
        if late_s <= 0:
            return None
        log.info("expired: not begun by its expires_at, and not run", extra={"late": round(late_s, 3)})
        self.counters.add("expired")
        self.run_stats.add_unrun(message.job_class, EXPIRED)
        self.handlers.tell_of_expiry(message)
        return EXPIRED
