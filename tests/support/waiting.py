"""Waiting for what other threads and processes do."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within_s: float = 20.0, every_s: float = 0.01) -> T:
    """Calls `condition` until its result is true or the deadline passes. Returns the last result, for an assert."""
    deadline = time.monotonic() + within_s
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(every_s)
    return answer


@contextmanager
def waiting_child(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that has printed its first line. It is killed at the end of the block."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()
