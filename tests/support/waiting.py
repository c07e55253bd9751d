"""Waiting for what other threads and processes do."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within_s: float = 20.0, every_s: float = 0.01) -> T:
    """Calls `condition` until its result is true or the deadline passes. Returns the last result, for an assert."""
    deadline = time.monotonic() + within_s
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(every_s)
    return answer


def await_stopped(pid: int) -> None:
    """After a SIGSTOP. One thread of the process takes the signal and stops the others: until that thread has had a
    processor, the others go on."""
    assert eventually(lambda: all(state_of(stat) in "TZX" for stat in Path(f"/proc/{pid}/task").glob("*/stat")))


def state_of(stat: Path) -> str:
    """Of a thread, one letter. `stat`: its file in /proc."""
    try:
        return stat.read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):  # the thread has ended
        return "X"


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
