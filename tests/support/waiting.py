"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within_s: float = 20.0) -> T:
    """What `condition` says as soon as that is true; at the deadline, whatever it says. So: assert eventually(...)."""
    deadline = time.monotonic() + within_s
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return answer
