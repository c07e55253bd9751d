"""Client links: functions of the program that see each job before its push."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from goworkers_py.api.request import require
from goworkers_py.wire import payload
from goworkers_py.wire.needs import FIELD, KWARGS, field_of
from goworkers_py.wire.payload import is_name

# A client link gets each job before its push, and returns the job, changed or not, or None to stop the push.
ClientLink = Callable[[dict[str, Any]], dict[str, Any] | None]


def through_links(links: Sequence[ClientLink], job: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the job as the links have changed it; None when one of them stops the push."""
    for link in links:
        changed = link(job)
        if changed is None:
            return None
        require(isinstance(changed, dict), f"a client link must return the job or None, returned {changed!r}")
        job = changed
    for name in ("queue", "class", "jid"):
        require(is_name(job.get(name)), f"a client link made the job's {name} {job.get(name)!r}")
    payload.check_args(job.get("args"), "args")
    if job.get("kwargs"):
        payload.check_kwargs(job["kwargs"])
        field = job.get(FIELD, {})  # a link may have added kwargs
        job[FIELD] = {**field, **field_of({*field.get("needs", ()), KWARGS})}
    payload.check_plain(job, "job", payload.MAX_NESTING)
    return job
