"""Ends a wait of a thread that polls several sockets."""

from __future__ import annotations

import socket
from contextlib import suppress


class Bell:
    """Any thread rings it; the thread that polls it wakes up. A ring is one call of C code."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)

    def ring(self) -> None:
        with suppress(OSError):  # it rings already, or is closed
            self._theirs.send(b"!")

    def silence(self) -> None:
        with suppress(OSError):
            self._ours.recv(4096)

    def fileno(self) -> int:
        return self._ours.fileno()

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()
