"""Ends workers of pytest that hang, so that a run of all tests ends by itself and tells where it hung.

pytest-timeout ends a test by an exception in its main thread. It ends no thread in C code that never returns, no end of
a fixture that swallows the exception, and no exit of a worker that waits for a thread. Without this, such a run lasts
until its caller gives up, and shows nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

# Longer than the limit of any test that runs without -m "".
STALLED_S = 240.0


class Stalls:
    """In the process that gives out the tests. When no worker has ended a test for a while, it ends all workers: xdist
    reports the test of each as failed, and goes on with new ones."""

    def __init__(self) -> None:
        self._heard_at = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="stalls", daemon=True).start()

    def pytest_runtest_logreport(self) -> None:
        self._heard_at = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(5.0):
            if time.monotonic() - self._heard_at > STALLED_S:
                self._heard_at = time.monotonic()
                _end_workers()


def _end_workers() -> None:
    workers = [int(pid) for told in Path("/proc/self/task").glob("*/children") for pid in told.read_text().split()]
    print(f"\nno test has ended for {STALLED_S:.0f} s: ending workers {workers}, which tell their threads",
          file=sys.__stderr__, flush=True)  # fmt: skip
    for pid in workers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)  # pytest has told Python to write the stacks of all threads at this signal
