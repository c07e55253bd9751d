"""Lets exceptions that a test throws into threads leave no lock of coverage locked.

Coverage locks its data when a thread comes into a file for the first time, by two small functions in Python. An
exception from outside, such as that of a cancelled job, strikes between any two instructions, so also between locking
and the return of that function. Then the lock stays locked, and every thread of the process waits for ever.
"""

from __future__ import annotations

import sys
from typing import Any


def use_locks_without_python() -> None:
    """Gives the tracers the methods of the lock itself: no exception from outside strikes in C code."""
    module: Any = sys.modules.get("coverage.collector")
    if module is None:  # nothing is measured
        return
    module.Collector.lock_data = property(lambda collector: collector.data_lock.acquire)
    module.Collector.unlock_data = property(lambda collector: collector.data_lock.release)
    for collector in module.Collector._collectors:
        for tracer in collector.tracers:  # those that have begun
            tracer.lock_data, tracer.unlock_data = collector.lock_data, collector.unlock_data
