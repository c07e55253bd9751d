"""The identity of a process: `host:pid:nonce`, never shared and never used again."""

from __future__ import annotations

import os
import re
import socket

from goworkers_py.core import machine


def new_identity() -> str:
    return f"{_hostname()}:{os.getpid()}:{machine.token_hex(6)}"


def pid_here(identity: str) -> int | None:
    """The pid in an identity of this machine; None for one of another machine."""
    hostname, pid, _ = identity.rsplit(":", 2)
    return int(pid) if hostname == _hostname() else None


def _hostname() -> str:
    return os.environ.get("DYNO") or socket.gethostname()


def is_identity(name: str) -> bool:
    """Check this before a stranger's identity becomes part of a key's name: another text could name another key."""
    return re.fullmatch(r".+:\d+:[0-9a-f]{12}", name) is not None
