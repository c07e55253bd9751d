"""How fast a program pushes: many jobs at once, and one after the other."""

from __future__ import annotations

from functools import partial

from bench.measure import Site
from bench.report import Table, percentile
from bench.run import Run, rows
from bench.systems import OURS, PEERS_OF_OURS, SIDEKIQ, System

ONE_BY_ONE = 2_000
USUAL_JOBS = 60_000


def enqueue(run: Run) -> list[Table]:
    return [_bulk(run), _single(run)]


def _bulk(run: Run) -> Table:
    table = Table(
        "enqueue", "many at once: enqueue_bulk and push_bulk", "jobs/s",
        "One program, no worker; both send 1,000 in a round trip.",
    )  # fmt: skip
    systems = (OURS, SIDEKIQ)
    table.rows = rows(run.in_turn(table, {one.name: partial(_push_many, run, one) for one in run.available(*systems)}))
    table.left_out |= run.reasons(systems)
    ours, sidekiq = table.row(OURS.name), table.row(SIDEKIQ.name)
    if ours and sidekiq:
        ratio = ours.median / sidekiq.median
        table.judge(sidekiq.label, f"{ratio:.2f}x", ">= 1x", ratio >= 1)
    return table


def _push_many(run: Run, system: System) -> float:
    with Site(run.server) as site:
        client = site.client(system)
        client.ask("fill", count=1_000)  # connects
        return run.jobs / float(client.ask("fill", count=run.jobs)["seconds"])


def _single(run: Run) -> Table:
    table = Table(
        "enqueue", "one by one, p50", "us",
        "One program, no worker, each call timed by itself: enqueue, perform_async, Enqueue, send, delay, ...",
        digits=1,
    )  # fmt: skip
    systems = (OURS, *PEERS_OF_OURS)
    measures = {one.name: partial(_push_one, run, one) for one in run.available(*systems)}
    table.rows = rows(run.in_turn(table, measures))
    table.left_out |= run.reasons(systems)
    ours = table.row(OURS.name)
    for row in table.rows:
        if ours and row is not ours:
            row.ratio = f"{ours.median / row.median:.2f}x"
            table.judge(row.label, row.ratio, "<= 1x", ours.median <= row.median)
    return table


def _push_one(run: Run, system: System) -> float:
    count = max(20, int(ONE_BY_ONE * min(1.0, run.jobs / USUAL_JOBS)))
    with Site(run.server) as site:
        return percentile(site.client(system).ask("time", count=count)["ns"], 0.5) / 1e3
