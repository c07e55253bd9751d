"""The link that logs each run: its start, its outcome and how long it took."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import Any

from goworkers_py.core import machine
from goworkers_py.core.outcome import Cancelled, Done, Lost, Outcome, Requeue, Reschedule, Unacknowledged
from goworkers_py.links.chain import Run, Wrap
from goworkers_py.observe.job_log_levels import job_levels
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message

log = logging.getLogger("goworkers_py.job")


_ENDS: dict[type[Outcome], str] = {
    Done: "done",
    Unacknowledged: "ended unacknowledged",
    Lost: "ended with a lost lease",
    Reschedule: "ended to run again",
    Requeue: "ended to go on later",
    Cancelled: "ended as cancelled",
}


def log_runs(registry: Registry) -> Wrap:
    return lambda inner: _logged(inner, registry)


def _logged(inner: Run, registry: Registry) -> Run:
    def run(message: Message) -> Outcome:
        if "log_level" not in message.fields and not registry.any_log_levels:  # nearly every job
            return logged(message) if log.isEnabledFor(logging.INFO) else inner(message)
        level = registry.log_level_for(message)
        with job_levels.during(level) if level is not None else nullcontext():
            return logged(message) if log.isEnabledFor(logging.INFO) else inner(message)

    def logged(message: Message) -> Outcome:
        _say("start")
        began = machine.monotonic()
        outcome = inner(message)
        elapsed = round(machine.monotonic() - began, 3)
        _say(_ENDS.get(type(outcome), "ended in failure"), elapsed=elapsed)
        return outcome

    return run


def _say(text: str, **fields: Any) -> None:
    """As `log.info`, without its search for the line of code that says it: that is always this one."""
    log.handle(log.makeRecord(log.name, logging.INFO, __file__, 0, text, (), None, extra=fields))
