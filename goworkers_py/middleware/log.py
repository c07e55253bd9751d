"""The link that logs each run: start, and how it ended and how long it took."""

from __future__ import annotations

import logging
import time

from goworkers_py.message import Message
from goworkers_py.middleware.chain import Run
from goworkers_py.outcome import DONE, KEEP, Outcome

log = logging.getLogger("goworkers_py.job")


def log_runs(inner: Run) -> Run:
    def run(message: Message) -> Outcome:
        if not log.isEnabledFor(logging.INFO):
            return inner(message)
        log.info("start")
        began = time.monotonic()
        outcome = inner(message)
        seconds = time.monotonic() - began
        if outcome is DONE:
            log.info("done", extra={"duration": seconds})
        elif outcome is KEEP:
            log.info("ended unacknowledged", extra={"duration": seconds})
        else:
            log.info("ended in failure", extra={"duration": seconds})
        return outcome

    return run
