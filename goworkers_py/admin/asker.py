"""Names the person who gives a command, for the logs of the processes that obey it, and for the audit."""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import suppress


def asker(said: str = "") -> str:
    """`user@host, pid 4242`, and what the user has said of it."""
    user = str(os.getuid())
    with suppress(Exception):  # a container may have no name for its user
        user = getpass.getuser()
    who = f"{user}@{socket.gethostname()}, pid {os.getpid()}"
    return f"{who}: {said}" if said else who
