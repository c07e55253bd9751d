"""The commands that a process takes from a signal, the fleet, its parent, or one of its own threads.

In a process that works, all commands go through one inbox, which the main thread reads, see `system.main_loop`. The
parent of `processes = N` has no inbox: it answers signals in the loop of `system.supervisor`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable


class Command(enum.Enum):
    QUIET = "quiet"  # fetch no new jobs; running jobs go on to their end
    STOP = "stop"  # stop gracefully; a second command changes nothing
    STOP_OR_HURRY = "stop, or hurry"  # stop gracefully; a second command ends the wait for running jobs
    INTERRUPT = "interrupt"  # as STOP_OR_HURRY, from Ctrl-C in a terminal
    RETIRE = "retire"  # stop when the running jobs have ended, however long that takes
    DUMP = "dump"  # log the stack of every thread
    RECOVER = "recover"  # another process has certainly ended: recover its jobs now
    REOPEN = "reopen"  # the log file was rotated: open it again
    REPLACE = "replace"  # to load new code: a parent replaces every child, a child has itself replaced


# A function that takes a command and, for the log, the sender of the command.
Obey = Callable[[Command, str], None]
