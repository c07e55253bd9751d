"""The last keys that were added, and no more of them than a limit."""

from __future__ import annotations

import threading


class Remembered:
    """Threads share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._keys: dict[bytes, None] = {}  # oldest first

    def __contains__(self, key: bytes) -> bool:
        with self._lock:
            return key in self._keys

    def add(self, key: bytes) -> bool:
        """Whether the key is new."""
        with self._lock:
            if key in self._keys:
                return False
            self._keys[key] = None
            if len(self._keys) > self._most:
                del self._keys[next(iter(self._keys))]
            return True
