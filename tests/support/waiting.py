"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within_s: float = 20.0) -> T:
    """Calls `condition` until its result is true or the deadline passes. Returns the last result, for an assert."""
    deadline = time.monotonic() + within_s
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return answer
