"""Limits the memory that the requests of all clients take at once, for their bodies and for payloads on pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from goworkers_py.web.http.errors import Refused

PATIENCE_S = 2.0


class Budget:
    """Threads share it."""

    def __init__(self, most: int) -> None:
        self.most = most  # bytes
        self._changed = threading.Condition()
        self._taken = 0  # bytes, under `_changed`

    def take(self, size: int) -> None:
        """Waits until other requests have given back enough, but not for long. Raises Refused."""
        if size > self.most:
            raise Refused(413, "the body holds too many values: send it in parts")
        with self._changed:
            if not self._changed.wait_for(lambda: self._taken + size <= self.most, PATIENCE_S):
                raise Refused(503, "too many large requests at once: wait a moment", (("Retry-After", "1"),))
            self._taken += size

    @contextmanager
    def lent(self, size: int) -> Iterator[None]:
        """Raises Refused."""
        self.take(size)
        try:
            yield
        finally:
            self.give(size)

    def give(self, size: int) -> None:
        with self._changed:
            self._taken -= size
            self._changed.notify_all()
