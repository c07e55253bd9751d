"""Processes that keep one delayed task each, and kill themselves at the n-th step of that.

    python delay_crash_points.py KIND PLACE STRIDE

KIND is redis, delaytk (the layout of a Go program) or sqlite. A step is a line of goworkers_py or of the Redis driver.
The process of step n saves the task `task-n`. Prints `n killed` for each, until one survives, which prints `n
survived`.
"""

from __future__ import annotations

import sys
from functools import partial

from crash_points import Killer, live_until_one_survives

import goworkers_py as workers


def opened(kind: str, place: str) -> workers.RedisPersistence | workers.SQLitePersistence:
    if kind == "sqlite":
        return workers.SQLitePersistence(place)
    return workers.RedisPersistence(place, layout="delaytk" if kind == "delaytk" else "pyworkers")


def live(kind: str, place: str, step: int) -> None:
    kept = opened(kind, place)
    kept.save(workers.DelayTask("known", 2_000_000_000.0, "remind", "text"))  # from here on it has its connection
    killer = Killer(step)
    killer.begin()
    sys.settrace(lambda frame, event, argument: killer.of_main(frame))
    kept.save(workers.DelayTask(f"task-{step}", 2_000_000_000.0, "remind", "text"))


def main(kind: str, place: str, stride: str) -> None:
    live_until_one_survives(partial(live, kind, place), stride)


if __name__ == "__main__":
    main(*sys.argv[1:])
