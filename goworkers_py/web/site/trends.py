"""Remembers how counts change while somebody looks: jobs a second, the growth of queues. Of this process alone."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.core.values import NamedTuple

KEPT_S, RATE_S, MOST_POINTS = 600.0, 15.0, 150
EVERY_S = KEPT_S / MOST_POINTS


class Point(NamedTuple):
    at: float  # monotonic
    processed: int
    failed: int
    sizes: dict[str, int]  # by queue


class Trend(NamedTuple):
    """A rate is None until it can be told."""

    processed_per_s: float | None
    failed_per_s: float | None


class Trends:
    """Threads share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._points: dict[str, deque[Point]] = {}  # by partition, under the lock

    def add(self, partition: str, stats: Stats) -> None:
        now = self._clock()
        point = Point(now, stats.processed, stats.failed, {queue.name: queue.size for queue in stats.queues})
        with self._lock:
            points = self._points.setdefault(partition, deque(maxlen=MOST_POINTS))
            if len(points) > 1 and point.at - points[-2].at < EVERY_S:
                points.pop()  # the newest one is always of now, the others keep their distance
            points.append(point)

    def rates(self, partition: str) -> Trend:
        """Over the last seconds."""
        points = self._last(partition, RATE_S)
        if len(points) < 2 or points[-1].at - points[0].at < 1:
            return Trend(None, None)
        first, last = points[0], points[-1]
        seconds = last.at - first.at
        return Trend(
            max(0.0, (last.processed - first.processed) / seconds), max(0.0, (last.failed - first.failed) / seconds)
        )

    def growth(self, partition: str, queue: str) -> tuple[float | None, list[int]]:
        """By how many jobs a queue grows in a minute, and its sizes while somebody has looked."""
        points = self._last(partition, KEPT_S)
        sizes = [point.sizes.get(queue, 0) for point in points]
        if len(points) < 2 or points[-1].at - points[0].at < 5:
            return None, sizes
        return 60 * (sizes[-1] - sizes[0]) / (points[-1].at - points[0].at), sizes

    def _last(self, partition: str, seconds: float) -> list[Point]:
        since = self._clock() - seconds
        with self._lock:
            return [point for point in self._points.get(partition, ()) if point.at >= since]
