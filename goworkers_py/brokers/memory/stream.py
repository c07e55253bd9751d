"""A bounded stream: entries in the order in which they were added, each with its time and a position."""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.values import dataclass

T = TypeVar("T")


_POSITION = re.compile(r"[0-9]{1,19}")


def check_position(parameter: str, position: str) -> None:
    if position and not _POSITION.fullmatch(position):
        raise ArgumentError(f"{parameter}: {position[:100]!r} is not the position of an entry")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    number: int
    at: float
    value: T


class Stream(Generic[T]):
    """Used under the lock of the state."""

    def __init__(self, kept: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._numbers = itertools.count(1)
        self._entries: deque[Entry[T]] = deque(maxlen=kept)
        self.heard: list[Callable[[], None]] = []

    def add(self, value: T) -> None:
        self._entries.append(Entry(next(self._numbers), self._clock(), value))
        for heard in self.heard:
            heard()

    @property
    def end(self) -> str:
        return str(self._entries[-1].number) if self._entries else "0"

    def before(self, position: str) -> list[Entry[T]]:
        """The newest first. An empty position is behind the last entry."""
        return [entry for entry in reversed(self._entries) if not position or entry.number < int(position)]

    def after(self, position: str) -> list[Entry[T]]:
        return [entry for entry in self._entries if entry.number > int(position)]
