"""Prefetch: how many jobs a process fetches of a queue beyond its free workers."""

from __future__ import annotations


class AdaptivePrefetch:
    """Measures the average run time of a queue's jobs, in which recent runs weigh most, and sets the prefetch by it."""

    def __init__(self, fixed: int | None, workers: int, longest_reserve: int = 200) -> None:
        self.adapts = fixed is None
        self._fixed = fixed
        self._workers = workers
        self._longest_reserve = longest_reserve
        # Workers write it without a lock. Two of them at the same time may lose one run time, which is harmless.
        self._average_s: float | None = None

    def resize(self, workers: int) -> None:
        """By the watchdog's thread; the fetcher's reads it."""
        self._workers = workers

    def record(self, seconds: float) -> None:
        average = self._average_s
        self._average_s = seconds if average is None else average + (seconds - average) * _WEIGHT

    @property
    def average_s(self) -> float:
        """0 before the first run."""
        return self._average_s or 0.0

    def reserve(self) -> int:
        """How many jobs to fetch beyond the free workers: as many as all workers run in about 20 ms, and none if a job
        takes longer than that."""
        if self._fixed is not None:
            return self._fixed
        if self._average_s is None or self._average_s > _RESERVE_S:
            return 0  # no run yet, or long jobs
        return min(self._longest_reserve, int(self._workers * _RESERVE_S / max(self._average_s, 1e-6)))


_RESERVE_S = 0.020
_WEIGHT = 0.1
