"""How fast entries that are due go to their queues, and what those cost that are not."""

from __future__ import annotations

import time
from functools import partial

from bench.measure import Site, idle_cpu_percent, rate_of
from bench.report import Table
from bench.run import Run, rows
from bench.systems import KEYS, OURS, SIDEKIQ, System
from bench.wire import schedule

DUE, NOT_DUE = 100_000, 1_000_000
USUAL_JOBS = 60_000
TIMES_SIDEKIQ = 10
IDLE_CPU_PERCENT, IDLE_S = 3.0, 5.0
THREADS = 10


def promotion(run: Run) -> list[Table]:
    due = int(DUE * min(1.0, run.jobs / USUAL_JOBS))
    table = Table(
        "promotion", f"{due:,} entries of the schedule that are due", "entries/s",
        "Until the schedule is empty; the queue that they go to is nobody's.",
    )  # fmt: skip
    systems = (OURS, SIDEKIQ)
    measures = {one.name: partial(_promote, run, one, due) for one in run.available(*systems)}
    table.rows = rows(run.in_turn(table, measures))
    table.left_out |= run.reasons(systems)
    ours, sidekiq = table.row(OURS.name), table.row(SIDEKIQ.name)
    if ours and sidekiq:
        ratio = ours.median / sidekiq.median
        table.judge(sidekiq.label, f"{ratio:.1f}x", f">= {TIMES_SIDEKIQ}x", ratio >= TIMES_SIDEKIQ)
    return [table, _waiting(run)] if ours else [table]


def _promote(run: Run, system: System, due: int) -> float:
    with Site(run.server) as site:
        schedule(run.server.client, due, time.time() - 60, "later")
        worker = site.worker(system, THREADS)
        return rate_of(lambda: run.server.client.zcard(KEYS.schedule), [worker], due)


def _waiting(run: Run) -> Table:
    many = int(NOT_DUE * min(1.0, run.jobs / USUAL_JOBS))
    table = Table(
        "promotion", "entries that are not due: processor use of an idle worker", "%",
        "An idle worker beside a schedule whose entries are due in a day.", digits=2,
    )  # fmt: skip
    table.rows = rows(run.in_turn(table, {f"{number:,}": partial(_wait, run, number) for number in (0, many)}))
    for row in table.rows:
        table.judge(row.label, "", f"< {IDLE_CPU_PERCENT:g} %", row.median < IDLE_CPU_PERCENT)
    return table


def _wait(run: Run, number: int) -> float:
    with Site(run.server) as site:
        schedule(run.server.client, number, time.time() + 86_400, "later")
        client = site.client(OURS)
        worker = site.worker(OURS, THREADS)
        client.ask("stamp")
        site.await_stamps(1, [worker])
        client.kill()
        return idle_cpu_percent(worker, IDLE_S)
