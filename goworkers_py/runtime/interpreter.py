"""Needs of the daemon that the Python which runs it has to meet."""

from __future__ import annotations

import gc
import logging
import sys

log = logging.getLogger(__name__)

# How many objects may be made before the garbage collector looks at the young ones. By default, up to Python 3.12 and
# since. A job in progress is some ten objects, of which none is garbage: with the default, the collector takes a tenth
# of the time of short jobs.
_DEFAULTS = (700, 2_000)
GARBAGE_EVERY = 10_000
# While a working command starts: its imports make half as many objects, of which none is garbage. No program chooses
# this number.
AT_START = 99_991


def warn_where_unsupported() -> None:
    """See docs/internals/threads.md for the steps that rely on the interpreter's lock."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        log.warning(
            "this Python runs without its global interpreter lock (a free-threaded build), which pyworkers does not "
            "support yet: start it with PYTHON_GIL=1, or use an ordinary build"
        )


def keep_what_a_start_has_imported() -> None:
    """Called before modules of the user are imported. The modules of the command stay until the process ends, so the
    collector need not look at them again. In another program nothing is kept: its own objects are among these."""
    if gc.get_threshold()[0] == AT_START:
        gc.freeze()


def collect_garbage_less_often(every: int = GARBAGE_EVERY) -> None:
    """Leaves a program alone that has chosen for itself. With AT_START until the start has ended, and then without."""
    youngest, *older = gc.get_threshold()
    if youngest in (*_DEFAULTS, AT_START):
        gc.set_threshold(every, *older)
