"""The cost of unique jobs, of jobs in a batch, and of the links of a chain."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import goworkers_py as workers
from bench.measure import Site, rate_of
from bench.report import Table, percentile
from bench.run import Run, rows
from bench.systems import OURS, QUEUE

THREADS = 10
USUAL_JOBS, LINKS, ONE_BY_ONE = 60_000, 10_000, 2_000
AT_ONCE = 1_000
PLAIN, UNIQUE, BATCHED, CHAINED = "plain", "unique", "in one batch", "links of a chain"
SHARE_OF_BATCH, LINKS_A_SECOND, TIMES_UNIQUE = 0.6, 1_000, 1.3

noop = workers.job("Noop", queue=QUEUE)(lambda *args: None)
unique = noop.set(unique_for=3_600)
stamp = workers.job("Stamp", queue=QUEUE)(lambda sent_ns: None)


def shapes(run: Run) -> list[Table]:
    if not run.available(OURS):
        return []
    workers.configure(broker=run.server.url)
    return [_drains(run), _links(run), _pushes(run)]


def _drains(run: Run) -> Table:
    table = Table(
        "shapes", f"no-op jobs, {THREADS} threads, by their shape", "jobs/s",
        f"Jobs that do nothing, {THREADS} at once, until a full queue is empty.",
    )  # fmt: skip
    fills = {PLAIN: noop.enqueue_bulk, UNIQUE: unique.enqueue_bulk, BATCHED: _fill_batch}
    table.rows = rows(run.in_turn(table, {name: partial(_drain, run, fill) for name, fill in fills.items()}))
    plain, batched = table.row(PLAIN), table.row(BATCHED)
    if plain and batched:
        share = batched.median / plain.median
        table.judge(BATCHED, f"{share:.2f}x", f">= {SHARE_OF_BATCH}x", share >= SHARE_OF_BATCH)
    return table


def _fill_batch(numbers: list[list[int]]) -> object:
    with workers.batch("bench"):
        return noop.enqueue_bulk(numbers)


def _drain(run: Run, fill: Callable[[list[list[int]]], object]) -> float:
    with Site(run.server) as site:
        fill([[number] for number in range(run.jobs)])
        worker = site.worker(OURS, THREADS)
        return rate_of(lambda: OURS.left(run.server.client), [worker], run.jobs)


def _links(run: Run) -> Table:
    table = Table(
        "shapes", "links of one chain", "links/s", "No-op jobs, each begins when the one before has ended.",
    )  # fmt: skip
    table.rows = rows(run.in_turn(table, {CHAINED: partial(_chain, run)}))
    if row := table.row(CHAINED):
        table.judge(CHAINED, "", f">= {LINKS_A_SECOND:,}/s", row.median >= LINKS_A_SECOND)
    return table


def _chain(run: Run) -> float:
    count = int(LINKS * min(1.0, run.jobs / USUAL_JOBS))
    with Site(run.server) as site:
        [worker] = site.ready(OURS, 1, THREADS)
        workers.chain(*[noop.s(number) for number in range(count)], stamp.s(time.monotonic_ns())).enqueue()
        site.await_stamps(1, [worker], within_s=max(60.0, count / 100))
        return count * 1e9 / site.stamps()[0]


def _pushes(run: Run) -> Table:
    table = Table(
        "shapes", "push of one job, p50", "us", "One program, no worker, each call timed by itself.", digits=1
    )
    jobs = {PLAIN: noop, UNIQUE: unique}
    table.rows = rows(run.in_turn(table, {name: partial(_push, run, job.enqueue) for name, job in jobs.items()}))
    plain, locked = table.row(PLAIN), table.row(UNIQUE)
    if plain and locked:
        times = locked.median / plain.median
        table.judge(UNIQUE, f"{times:.2f}x", f"<= {TIMES_UNIQUE}x", times <= TIMES_UNIQUE)
    return table


def _push(run: Run, push: Callable[[int], object]) -> float:
    taken = []
    with Site(run.server):
        for number in range(max(20, int(ONE_BY_ONE * min(1.0, run.jobs / USUAL_JOBS)))):
            began = time.perf_counter_ns()
            push(number)
            taken.append(time.perf_counter_ns() - began)
    return percentile(taken, 0.5) / 1e3
