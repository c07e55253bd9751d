"""How many payloads to move in one step, so that no step takes long: few at first, because they may be large."""

from __future__ import annotations

FIRST, MOST = 10, 100
BYTES = 1_000_000


class StepSize:
    def __init__(self) -> None:
        self.count = FIRST

    def moved(self, count: int, size: int) -> None:
        """A step has moved `count` payloads of `size` bytes together."""
        fitting = count * BYTES // max(1, size)
        self.count = max(1, min(MOST, 2 * self.count, fitting))
