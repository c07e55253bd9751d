"""Ours with a clock around each settling call. What it measured is written at the end of the process."""

import atexit
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import goworkers_py as workers
from goworkers_py.brokers.redis.broker import RedisBroker

_settle = RedisBroker.settle
_taken_ns: list[int] = []


@workers.job("Scattered")
def scattered(milliseconds: float, *args: Any) -> None:
    """Jobs that took equally long would all end at once."""
    time.sleep(milliseconds / 1_000 * random.uniform(0.5, 1.5))


def timed(self: RedisBroker, batch: Any) -> Any:
    began = time.perf_counter_ns()
    try:
        return _settle(self, batch)
    finally:
        _taken_ns.append(time.perf_counter_ns() - began)


def write() -> None:
    Path(os.environ["BENCH_SETTLES"]).write_text(json.dumps(_taken_ns))


RedisBroker.settle = timed  # type: ignore[method-assign]
atexit.register(write)
