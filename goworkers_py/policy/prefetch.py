"""How many jobs a pool of threads fetches beyond those that it can run at once."""

from __future__ import annotations


class AdaptivePrefetch:
    """How long jobs of a queue take, as an average that forgets; and how many it pays to hold in reserve."""

    def __init__(self, fixed: int | None, workers: int, longest_reserve: int = 100) -> None:
        self.adapts = fixed is None
        self._fixed = fixed
        self._workers = workers
        self._longest_reserve = longest_reserve
        # Written by every worker without a lock: a sample lost to another thread does no harm.
        self._average_s: float | None = None

    def record(self, seconds: float) -> None:
        average = self._average_s
        self._average_s = seconds if average is None else average + (seconds - average) * _WEIGHT

    @property
    def average_s(self) -> float:
        """0 while nothing is known."""
        return self._average_s or 0.0

    def reserve(self) -> int:
        """Jobs to hold beyond the free workers: what these get through in about 20 ms, and none of a queue whose jobs
        take longer than that."""
        if self._fixed is not None:
            return self._fixed
        if self._average_s is None or self._average_s > _RESERVE_S:
            return 0  # nothing is known yet, or long jobs
        return min(self._longest_reserve, int(self._workers * _RESERVE_S / max(self._average_s, 1e-6)))


_RESERVE_S = 0.020
_WEIGHT = 0.1
