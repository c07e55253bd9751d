"""Imports the modules that declare jobs, and warns of pushes meanwhile. They are a classic mistake: each process that
starts pushes again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from goworkers_py.config.user_code import import_from_here, import_module

if TYPE_CHECKING:
    from goworkers_py.api.client_links import ClientLink
    from goworkers_py.config.options import Config

log = logging.getLogger("goworkers_py.job")

_PACKAGE = __name__.partition(".")[0]


def import_jobs(config: Config, links: list[ClientLink]) -> None:
    """Imports the modules of `require`. `links` are the client links of all pushes."""
    import_from_here()
    with _warned_of(links):
        for module in config.require:
            import_module(module, "require")


@contextmanager
def _warned_of(links: list[ClientLink]) -> Iterator[None]:
    warned = set[str]()

    def warn(job: dict[str, Any]) -> dict[str, Any]:
        if (place := _place()) not in warned:
            warned.add(place)
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
