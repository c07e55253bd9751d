"""A dict whose entries live for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Expiring(Generic[K, V]):
    """Used under a lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[K, tuple[V, float]] = {}
        self._look_at = 1_000  # so many entries are looked through for expired ones

    def put(self, key: K, value: V, life_s: float) -> None:
        self._entries[key] = value, self._clock() + life_s
        if len(self._entries) >= self._look_at:
            self._entries = {key: entry for key, entry in self._entries.items() if entry[1] > self._clock()}
            self._look_at = max(1_000, 2 * len(self._entries))

    def get(self, key: K) -> V | None:
        value, expires_at = self._entries.get(key, (None, 0.0))
        return value if expires_at > self._clock() else None
