"""The delay queue's timers beside other ways to keep a million of them in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.environments import Unavailable, python_environment
from bench.peers.timers import PROBES, PROBES_S, TICK_S
from bench.places import PEERS, ROOT
from bench.programs import Failed
from bench.report import Row, Table, percentile
from bench.run import Run
from bench.systems import OURS

COUNT = 1_000_000
USUAL_JOBS = 60_000
IN_PER_S, MOST_BYTES, TICK_MS, LATE_MS = 300_000, 400, 5.0, TICK_S * 1e3 + 5.0
MOST_S = 600


@dataclass(frozen=True)
class Keeper:
    kind: str
    label: str
    share: float = 1.0  # of the timers: slow ones get fewer
    requirement: str = ""


OUR_WHEEL = Keeper("ours", OURS.name)
KEEPERS = (
    OUR_WHEEL,
    Keeper("heap", "heapq with threading.Timer"),
    Keeper("apscheduler", "APScheduler", 0.005, "apscheduler>=3.10,<4"),
    Keeper("sorted set", "polling of a sorted set", 0.05, "redis[hiredis]>=6"),
)
_Figures = dict[str, Any]


def timers(run: Run) -> list[Table]:
    if not run.available(OURS):
        return []
    keepers = (OUR_WHEEL,) if run.wanted else KEEPERS
    count = max(1_000, int(COUNT * min(1.0, run.jobs / USUAL_JOBS)))
    how = (
        f"{count:,} timers, due within an hour; {', '.join(_fewer(count))}. Ids and parameters are made before, and "
        "ours keeps its tasks in memory only. The collector's threshold is 10,000 objects, as `pyworkers` sets it."
    )
    first = Table("timers", "timers pushed", "timers/s", how)
    found = run.in_turn(first, {one.label: partial(_measure, run, one, count) for one in keepers})
    tables = [
        _table(first, found, lambda one: one["in"][0]),
        _table(_named("timers pushed, by processor time", "timers/s", how), found, lambda one: one["in"][1]),
        _table(_named("timers cancelled, by processor time", "timers/s", how), found, lambda one: one["out"][1]),
        _table(_named("memory of a timer", "bytes", how), found, lambda one: one["bytes"]),
        _table(_named("how late a timer runs while the others wait, 99th percentile", "ms", _probes()), found, _late),
        _table(_named("a tick while the timers wait, 99th percentile", "ms", _probes()), found, _tick),
    ]
    _judge(tables)
    return tables


def _named(title: str, unit: str, how: str) -> Table:
    return Table("timers", title, unit, how, digits=1)


def _fewer(count: int) -> list[str]:
    return [f"{one.label} {max(1_000, int(count * one.share)):,} of them" for one in KEEPERS if one.share < 1]


def _probes() -> str:
    return f"{PROBES} further timers are due within {PROBES_S:g} s. Ticks and polls come every {TICK_S * 1e3:g} ms."


def _judge(tables: list[Table]) -> None:
    pushed, pushed_cpu, cancelled_cpu, memory, late, tick = tables
    for table in (pushed, pushed_cpu, cancelled_cpu):
        if row := table.row(OUR_WHEEL.label):
            table.judge(row.label, "", f">= {IN_PER_S:,}/s", row.median >= IN_PER_S)
    for table, most in ((memory, MOST_BYTES), (late, LATE_MS), (tick, TICK_MS)):
        if row := table.row(OUR_WHEEL.label):
            table.judge(row.label, "", f"< {most:g} {table.unit}", row.median < most)


def _table(table: Table, found: dict[str, list[_Figures]], figure: Callable[[_Figures], float | None]) -> Table:
    """A row for each keeper that has this figure."""
    for label, rounds in found.items():
        values = [value for one in rounds if (value := figure(one)) is not None]
        if values:
            table.rows.append(Row(label, values))
    return table


def _late(found: _Figures) -> float | None:
    if len(found["late"]) < PROBES:
        raise Failed(f"{PROBES - len(found['late'])} timers did not run")
    return percentile(found["late"], 0.99) * 1e3


def _tick(found: _Figures) -> float | None:
    return percentile(found["ticks"], 0.99) * 1e3 if found["ticks"] else None


def _measure(run: Run, keeper: Keeper, count: int) -> _Figures:
    count = max(1_000, int(count * keeper.share))
    run.server.client.flushall()
    try:
        python = _python(keeper)
    except Unavailable as reason:
        raise Failed(str(reason)) from None
    command = [str(python), str(PEERS / "timers.py"), keeper.kind, str(count), run.server.url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} if keeper is OUR_WHEEL else dict(os.environ)
    done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_S, env=environment)
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
    found: _Figures = json.loads(done.stdout)
    return found


def _python(keeper: Keeper) -> Path:
    if not keeper.requirement:
        return Path(sys.executable)
    return python_environment(f"timers-{keeper.kind.replace(' ', '-')}", [keeper.requirement]) / "python"
