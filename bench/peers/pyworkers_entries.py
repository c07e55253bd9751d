"""Ours, for the memory of what jobs and schedules leave behind: `pyworkers run -r pyworkers_entries`."""

import os
import time

import goworkers_py as workers

DAY_S = 86_400


@workers.job("Noop")
def noop(number: int) -> None:
    pass


@workers.job("Kept")
def kept(number: int) -> int:
    return number


@workers.job("Slow")
def slow(number: int) -> int:
    time.sleep(0.1)
    return number


@workers.job("Long")
def long(number: int) -> str:
    return "x" * 100


@workers.job("Fail", retry_in=DAY_S)
def fail(number: int) -> None:
    raise ValueError(f"no {number}")


for _slot in range(int(os.environ.get("BENCH_PERIODICS", "0"))):
    workers.periodic(every=7 * DAY_S, name=f"report-{_slot}", args=[_slot], catch_up="none")(noop)
