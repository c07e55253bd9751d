"""Warns of pushes while a module is imported. They are a classic mistake: each process that starts pushes again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from goworkers_py.api.client_links import ClientLink

log = logging.getLogger("goworkers_py.job")

_PACKAGE = __name__.partition(".")[0]


@contextmanager
def warned_of(links: list[ClientLink]) -> Iterator[None]:
    """Around imports. `links` are the client links of all pushes."""
    told = set[str]()

    def warn(job: dict[str, Any]) -> dict[str, Any]:
        if (place := _place()) not in told:
            told.add(place)
            log.warning(
                "%s: a job %s is pushed while its module is imported, so each process that starts pushes it again: "
                'move the push into a function, or below `if __name__ == "__main__":`', place, job.get("class")
            )  # fmt: skip
        return job

    links.append(warn)
    try:
        yield
    finally:
        links.remove(warn)


def _place() -> str:
    """The line of the program that pushes."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
