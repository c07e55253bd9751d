"""The state of this process: starting, working, quiet, stopping."""

from __future__ import annotations

import math

from goworkers_py.core.clock import Deadline
from goworkers_py.observe.health_report import QUIET, STARTING, STOPPING, WORKING


class RunState:
    """Each field but `gave_up` is set by the launcher, by a single assignment; any thread reads it."""

    def __init__(self) -> None:
        self.started = False
        self.failed = False  # a start has failed after the first beat: there cannot be another one
        self.quiet = False
        self.deadline: Deadline | None = None  # of the stop that runs; None before it
        # It stops to be started again. Set by the watchdog's thread when too many jobs are stuck, and by that of a
        # start that failed while other partitions worked.
        self.gave_up = False

    @property
    def word(self) -> str:
        if self.deadline is not None:
            return STOPPING
        if self.quiet:
            return QUIET
        return WORKING if self.started else STARTING

    @property
    def will_end(self) -> bool:
        """A stop runs, and it has a time limit."""
        return self.deadline is not None and math.isfinite(self.deadline.left())
