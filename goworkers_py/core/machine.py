"""The machine as this program sees it: its clocks, its threads, and chance.

A daemon, a producer or a broker gets from here what it waits for, starts, or leaves to chance: `machine.monotonic()`,
`machine.Event()`, `machine.token_hex(6)`. A simulator replaces the names of this one module, and then runs a whole
fleet in one thread, under a clock of its own and from a seed: `tests/simulation`. Therefore each use reads the name
from this module: code that imported the name itself would keep the real machine.

Without a simulator these are the functions and classes of Python's own modules, and cost no more than those.
"""

from __future__ import annotations

import random
import time as _time
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from queue import Queue, SimpleQueue
from secrets import token_hex
from threading import (
    Condition,
    Event,
    Lock,
    Thread,
    current_thread,
    get_ident,
    local,
)
from threading import enumerate as threads
from time import monotonic, perf_counter, process_time, sleep

# Not functions of our own, because every job asks these clocks several times. `time` is looked up at each call: users'
# tests set the wall clock by replacing `time.time`.
time: Callable[[], float] = partial(methodcaller("time"), _time)
# Seconds on a clock that goes on while the machine is suspended; Linux's monotonic clock stops then.
awake_and_asleep = partial(_time.clock_gettime, getattr(_time, "CLOCK_BOOTTIME", _time.CLOCK_MONOTONIC))


# Python looks for a thrown exception at each jump back.
_JUMPS = 100


def throw(ident: int, error: type[BaseException]) -> None:
    """Python raises the exception in that thread, between two of its instructions."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(error))


def land() -> None:
    """Raises what was thrown into this thread, if it has not been raised yet."""
    for _ in range(_JUMPS):
        pass


__all__ = [
    "Condition",
    "Event",
    "Lock",
    "Queue",
    "SimpleQueue",
    "Thread",
    "awake_and_asleep",
    "current_thread",
    "get_ident",
    "land",
    "local",
    "monotonic",
    "perf_counter",
    "process_time",
    "random",
    "sleep",
    "threads",
    "throw",
    "time",
    "token_hex",
]
