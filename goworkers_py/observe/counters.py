"""Counters that threads share. The lock is inside: callers need none."""

from __future__ import annotations

from goworkers_py.core.strikes import lock_outside_runs


class Counters:
    """Counts of events since the start of this process, by name."""

    def __init__(self) -> None:
        self._lock = lock_outside_runs()
        self._counts: dict[str, float] = {}

    def add(self, name: str, amount: float = 1) -> float:
        """Returns the new count."""
        with self._lock:
            self._counts[name] = count = self._counts.get(name, 0) + amount
        return count

    def snapshot(self) -> dict[str, float]:
        with self._lock:
            return dict(self._counts)
