"""Timers of one process, as four programs keep them: how fast they go in and out, what one takes, how late they run.

`timers.py KIND COUNT URL` prints a JSON object. Ids and parameters are made before the clock starts.
"""

from __future__ import annotations

import gc
import heapq
import json
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

PROBES, PROBES_S = 300, 3.0  # timers that run while the others wait, and for how long
HOUR_S = 3_600
TICK_S = 0.01


class Timers(ABC):
    """`run(id)` is called when a timer is due."""

    run: Callable[[str], None]

    @abstractmethod
    def push(self, delay: float, key: str) -> object: ...

    @abstractmethod
    def cancel(self, key: str) -> object: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def ticks(self) -> list[float]:
        """The seconds of each tick."""
        return []


class Ours(Timers):
    def __init__(self) -> None:
        import goworkers_py as workers
        from goworkers_py.features.delays.timers import Timers as OurTimers

        took = self._took = list[float]()
        tick = OurTimers.tick

        def timed(timers: OurTimers, now: float) -> None:
            began = time.perf_counter()
            tick(timers, now)
            took.append(time.perf_counter() - began)

        OurTimers.tick = timed  # type: ignore[method-assign]
        self._queue = queue = workers.DelayQueue({"probe": self._ran}, workers.MemoryPersistence(), tick=TICK_S)
        push = queue.push
        self.push = lambda delay, key: push(delay, "probe", key, key)  # type: ignore[method-assign]
        self.cancel = queue.cancel  # type: ignore[method-assign]
        self.start, self.stop = queue.start, queue.stop  # type: ignore[method-assign,assignment]

    def _ran(self, key: str) -> None:
        self.run(key)

    def push(self, delay: float, key: str) -> object: ...

    def cancel(self, key: str) -> object: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def ticks(self) -> list[float]:
        return self._took


class Heap(Timers):
    """A heap, and one threading.Timer for the first of it, as programs write it themselves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heap: list[tuple[float, str]] = []
        self._there: set[str] = set()
        self._timer: threading.Timer | None = None
        self._started = False

    def push(self, delay: float, key: str) -> None:
        with self._lock:
            entry = (time.monotonic() + delay, key)
            self._there.add(key)
            heapq.heappush(self._heap, entry)
            if self._started and self._heap[0] is entry:
                self._set()

    def cancel(self, key: str) -> None:
        with self._lock:
            self._there.discard(key)

    def start(self) -> None:
        with self._lock:
            self._started = True
            self._set()

    def stop(self) -> None:
        with self._lock:
            self._heap.clear()
            if self._timer is not None:
                self._timer.cancel()

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(max(0.0, self._heap[0][0] - time.monotonic()), self._fire)
        self._timer.daemon = True
        self._timer.start()

    def _fire(self) -> None:
        due = []
        with self._lock:
            while self._heap and self._heap[0][0] <= time.monotonic():
                _, key = heapq.heappop(self._heap)
                if key in self._there:
                    self._there.remove(key)
                    due.append(key)
            if self._heap:
                self._set()
        for key in due:
            self.run(key)


class APScheduler(Timers):
    def __init__(self) -> None:
        import datetime

        from apscheduler.schedulers.background import BackgroundScheduler

        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._scheduler.start()  # before it, a push only joins a list
        self._now = lambda: datetime.datetime.now(datetime.timezone.utc)
        self._after = datetime.timedelta

    def push(self, delay: float, key: str) -> None:
        at = self._now() + self._after(seconds=delay)
        self._scheduler.add_job(self.run, "date", run_date=at, args=[key], id=key, misfire_grace_time=None)

    def cancel(self, key: str) -> None:
        self._scheduler.remove_job(key)

    def start(self) -> None: ...

    def stop(self) -> None:
        self._scheduler.shutdown(wait=False)


class SortedSet(Timers):
    """A sorted set in Redis that is asked in each tick, as many job systems do it."""

    def __init__(self, url: str) -> None:
        import redis

        self._redis = redis.Redis.from_url(url)
        self._stopping = threading.Event()

    def push(self, delay: float, key: str) -> None:
        self._redis.zadd("timers", {key: time.time() + delay})

    def cancel(self, key: str) -> None:
        self._redis.zrem("timers", key)

    def start(self) -> None:
        threading.Thread(target=self._poll, daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _poll(self) -> None:
        while not self._stopping.wait(TICK_S):
            for key in self._redis.zrangebyscore("timers", "-inf", time.time()):
                if self._redis.zrem("timers", key):
                    self.run(key.decode())


KINDS: dict[str, Callable[[str], Timers]] = {
    "ours": lambda url: Ours(),
    "heap": lambda url: Heap(),
    "apscheduler": lambda url: APScheduler(),
    "sorted set": SortedSet,
}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


def rate(call: Callable[[], None], count: int) -> tuple[float, float]:
    """A second of the clock, and a second of the processor."""
    began, used = time.perf_counter(), time.thread_time()
    call()
    return count / (time.perf_counter() - began), count / (time.thread_time() - used)


def measure(timers: Timers, count: int) -> dict[str, object]:
    chance = random.Random(1)
    ids = [f"timer-{number}" for number in range(count)]
    delays = [60 + chance.random() * HOUR_S for _ in range(count)]
    late: list[float] = []
    due: dict[str, float] = {}
    timers.run = lambda key: late.append(time.monotonic() - due[key])

    def put_in() -> None:
        push = timers.push
        for delay, key in zip(delays, ids, strict=True):
            push(delay, key)

    def take_out() -> None:
        cancel = timers.cancel
        for key in ids:
            cancel(key)

    before = resident_bytes()
    put = rate(put_in, count)
    used = (resident_bytes() - before) / count
    timers.start()
    for number in range(PROBES):
        delay = 0.2 + chance.random() * PROBES_S
        due[f"probe-{number}"] = time.monotonic() + delay
        timers.push(delay, f"probe-{number}")
    deadline = time.monotonic() + PROBES_S + 30
    while len(late) < PROBES and time.monotonic() < deadline:
        time.sleep(0.05)
    ticks = [*timers.ticks()]
    taken = rate(take_out, count)
    timers.stop()
    return {"in": put, "out": taken, "bytes": used, "late": late, "ticks": ticks}


if __name__ == "__main__":
    gc.set_threshold(10_000)  # as `pyworkers` sets it
    print(json.dumps(measure(KINDS[sys.argv[1]](sys.argv[3]), int(sys.argv[2]))))
