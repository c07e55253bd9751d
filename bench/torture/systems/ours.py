"""goworkers-py, with its defaults."""

from __future__ import annotations

import os
import sys

import goworkers_py
from bench.machine import commit
from bench.places import ROOT
from bench.torture.systems.system import APPS, THREADS, Place, System


class Ours(System):
    name = "goworkers-py"
    language = "Python"
    settings = "nothing"
    notes = """\
Its lease of 60 s is no option, so the run waits for it. All workers of a run are on one machine: there it knows of a
killed process by the operating system, and need not wait for the lease.
"""
    losses = """\
Jobs run twice only where a worker was frozen for longer than its lease: others ran its jobs meanwhile, and it went on
with them when it woke. That is window 4 of [reliability](reliability.md#the-windows-in-which-a-job-can-run-twice).
"""
    settle_s = 100.0  # docs/reliability.md: a lease of 60 s, and a look each 18 s

    def find(self) -> None:
        self.version = f"{goworkers_py.__version__} {commit()}".strip()

    def worker(self, place: Place) -> list[str]:
        run = [sys.executable, "-m", "goworkers_py.cli", "run", "--broker", place.url]
        return [*run, "-r", "ours_app", "-q", f"default={THREADS}"]

    def client(self) -> list[str]:
        return [sys.executable, str(APPS / "ours_app.py")]

    def environment(self, place: Place) -> dict[str, str]:
        return {**super().environment(place), "PYTHONPATH": os.pathsep.join([str(APPS), str(ROOT)])}
