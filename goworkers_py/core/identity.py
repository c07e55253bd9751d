"""Who this process is to the rest of the fleet.

An identity is `host:pid:nonce`, never shared and never used again.
"""

from __future__ import annotations

import os
import re
import secrets
import socket


def new_identity() -> str:
    hostname = os.environ.get("DYNO") or socket.gethostname()
    return f"{hostname}:{os.getpid()}:{secrets.token_hex(6)}"


def is_identity(name: str) -> bool:
    """A key is called after an identity, and what a stranger calls one could be the name of another key."""
    return re.fullmatch(r".+:\d+:[0-9a-f]{12}", name) is not None
