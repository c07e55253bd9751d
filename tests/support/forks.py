"""Forked children of the test's process."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable

LONGEST_S = 40


def in_child(work: Callable[[], object]) -> int:
    """Runs `work` in a forked child and returns its pid, for `ended_well`."""
    pid = os.fork()
    if pid == 0:
        code = 1
        signal.alarm(LONGEST_S)  # kills a child that hangs
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def ended_well(pid: int) -> bool:
    """Waits for the child. True if it exited with 0."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
