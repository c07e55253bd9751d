"""What a process can be asked to do, whoever asks: a signal, the fleet, its parent, or a thread of its own.

All of it goes through one inbox, which the main thread reads, see `system.main_loop`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable


class Command(enum.Enum):
    QUIET = "quiet"  # fetch no new jobs; what runs is run to its end
    STOP = "stop"  # stop gracefully; asked again, nothing changes
    STOP_OR_HURRY = "stop, or hurry"  # stop gracefully; asked again, running jobs are not waited for any more
    INTERRUPT = "interrupt"  # the same, by somebody at a terminal
    RETIRE = "retire"  # stop when the running jobs have ended, however long that takes
    DUMP = "dump"  # log the stack of every thread
    RECOVER = "recover"  # another process is known to have ended: look for its jobs now
    REOPEN = "reopen"  # the log file was moved away: open it anew
    REPLACE = "replace"  # replace every child of `processes = N` by a new one, for new code


# Given a command and who asks for it, for the log.
Obey = Callable[[Command, str], None]
