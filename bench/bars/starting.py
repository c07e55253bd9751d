"""Measures the memory and processor time of an idle worker, and how soon it runs its first job."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

from bench.measure import Site
from bench.report import Row, Table
from bench.run import Run
from bench.systems import OURS, PEERS_OF_OURS, System

THREADS = 10
RESIDENT_MB, START_MS = 45.0, 250.0
IDLE_S = 1.0
FIRST_JOB_S = 60.0
IMPORTS = "bare import"
DEPENDENCIES = "import redis, hiredis, simplejson, click"


def footprint(run: Run) -> list[Table]:
    how = (
        f"A worker with {THREADS} threads, started beside a queue with one job in it; its memory a second later. "
        f"Bare import: `python -c '{DEPENDENCIES}'`, what the libraries that ours needs take."
    )
    memory = Table(
        "footprint", f"idle worker, {THREADS} threads: resident memory", "MB", how, digits=1, column="memory, MB"
    )
    start = Table("footprint", "from start to first job", "ms", how)
    systems = (OURS, *PEERS_OF_OURS)
    measures = {one.name: partial(_start, run, one) for one in run.available(*systems)}
    found = run.in_turn(memory, {IMPORTS: _import, **measures})
    memory.left_out |= run.reasons(systems)
    memory.rows = [Row(label, [used for _, used in pairs]) for label, pairs in found.items() if label != IMPORTS]
    start.rows = [Row(label, [taken for taken, _ in pairs]) for label, pairs in found.items()]
    ours = memory.row(OURS.name)
    if ours:
        memory.judge(ours.label, "", f"< {RESIDENT_MB:g} MB", ours.median < RESIDENT_MB)
    ours, bare = start.row(OURS.name), start.row(IMPORTS)
    if ours and bare:
        above = ours.median - bare.median
        start.judge(ours.label, f"{above:+.0f} ms", f"<= +{START_MS:g} ms", above <= START_MS)
    return [memory, start]


def _import() -> tuple[float, float]:
    code = f"{DEPENDENCIES}; import time; print(time.monotonic_ns())"
    began = time.monotonic_ns()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return (int(done.stdout) - began) / 1e6, 0.0


def _start(run: Run, system: System) -> tuple[float, float]:
    """Milliseconds to the first job, and the memory of all its processes in MB."""
    with Site(run.server) as site:
        client = site.client(system)
        client.ask("stamp", clock=False)  # the job then notes the time itself
        client.kill()
        began = time.monotonic_ns()
        worker = site.worker(system, THREADS)
        site.await_stamps(1, [worker], FIRST_JOB_S)
        time.sleep(IDLE_S)
        return (site.stamps()[0] - began) / 1e6, worker.resident_mb()
