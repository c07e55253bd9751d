"""Checks whether the daemon supports the Python that runs it."""

from __future__ import annotations

import logging
import sys

log = logging.getLogger(__name__)


def warn_where_unsupported() -> None:
    """See docs/internals/threads.md for the steps that rely on the interpreter's lock."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        log.warning(
            "this Python runs without its global interpreter lock (a free-threaded build), which pyworkers does not "
            "support yet: start it with PYTHON_GIL=1, or use an ordinary build"
        )
