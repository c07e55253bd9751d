"""The link that logs each run: start, and how it ended and how long it took."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

from goworkers_py.levels import job_levels, level_of
from goworkers_py.message import Message
from goworkers_py.middleware.chain import Run
from goworkers_py.outcome import DONE, KEEP, Outcome

log = logging.getLogger("goworkers_py.job")


def log_runs(inner: Run) -> Run:
    def run(message: Message) -> Outcome:
        level = level_of(message) if "log_level" in message.fields else None
        if level is None:
            return logged(message)
        with job_levels.during(level):
            return logged(message)

    def logged(message: Message) -> Outcome:
        if not log.isEnabledFor(logging.INFO):
            return inner(message)
        _say("start")
        began = time.monotonic()
        outcome = inner(message)
        elapsed = round(time.monotonic() - began, 3)
        if outcome is DONE:
            _say("done", elapsed=elapsed)
        elif outcome is KEEP:
            _say("ended unacknowledged", elapsed=elapsed)
        else:
            _say("ended in failure", elapsed=elapsed)
        return outcome

    return run


def _say(text: str, **fields: Any) -> None:
    """As `log.info`, without its search for the line of code that says it and what else takes as long as all the rest:
    that is half of what a line costs."""
    now, thread = time.time(), threading.current_thread()
    record = logging.LogRecord.__new__(logging.LogRecord)
    record.__dict__ = {
        **_BLANK,
        "msg": text,
        "created": now,
        "msecs": now % 1 * 1000,
        "thread": thread.ident,
        "threadName": thread.name,
        "process": os.getpid(),
        **fields,
    }
    log.handle(record)


_BLANK = vars(log.makeRecord(log.name, logging.INFO, __file__, 0, "", (), None))
