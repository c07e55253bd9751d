"""The link that logs each run: start, and how it ended and how long it took."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

from goworkers_py.core.outcome import DONE, KEEP, Outcome
from goworkers_py.links.chain import Run, Wrap
from goworkers_py.observe.job_log_levels import job_levels
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")


def log_runs(registry: Registry) -> Wrap:
    return lambda inner: _logged(inner, registry)


def _logged(inner: Run, registry: Registry) -> Run:
    def run(message: Message) -> Outcome:
        if "log_level" not in message.fields and not registry.any_log_levels:
            return logged(message)  # nearly every job
        level = registry.log_level_for(message)
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
