"""How many jobs a second, and what a job costs: no-ops, two processes, jobs that sleep, large payloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bench.measure import Drained, Site, drained, rate_of
from bench.measure import drain as drain_once
from bench.programs import Failed
from bench.report import Table, percentile
from bench.run import Run, rows, rows_of
from bench.systems import COMMANDS, GO_WORKERS, KEYS, OURS, PEERS_OF_OURS, QUEUE, SIDEKIQ, TRANSPORT, System
from bench.wire import fill

THREADS = 10
CEILINGS = (TRANSPORT, COMMANDS)
TIMES_SIDEKIQ, TIMES_GO_WORKERS, TIMES_PYTHON, SHARE_OF_COMMANDS = 6, 10, 15, 0.60

NAP_MS, NAP_THREADS, SHARE_OF_LIMIT = 5, 25, 0.95
LIMIT = NAP_THREADS * 1_000 / NAP_MS

TIMES_ONE_PROCESS = 1.4

# Size, how much fewer jobs than of the empty ones, and how many times as fast as Sidekiq.
PAYLOADS = ((10_000, 0.2, 1), (100_000, 0.04, 2.5))
SETTLE_MS, IN_FLIGHT, SETTLE_NAP_MS, SETTLED_S = 2.0, 100, 250, 4


def drain(run: Run, systems: Sequence[System] = (OURS, *CEILINGS, *PEERS_OF_OURS)) -> list[Table]:
    table = Table(
        "drain", f"no-op jobs, {THREADS} threads", "jobs/s",
        f"Jobs that do nothing, {THREADS} at once, until a full queue is empty.",
        column="no-op jobs/s",
    )  # fmt: skip
    there = run.available(*systems)
    table.left_out |= run.reasons(systems)
    found = run.in_turn(table, {one.name: partial(drain_once, run.server, one, run.count_for(one)) for one in there})
    table.rows = rows_of(found, "rate")
    hold_against(table, SIDEKIQ.name, TIMES_SIDEKIQ)
    hold_against(table, GO_WORKERS.name, TIMES_GO_WORKERS)
    python = [row for row in table.rows if row.label in {one.name for one in PEERS_OF_OURS if one.language == "Python"}]
    fastest = max(python, key=lambda row: row.median, default=None)
    for row in table.rows:
        if row is fastest:
            hold_against(table, row.label, TIMES_PYTHON, "the fastest of the Python peers")
        elif not row.bar and row.label != OURS.name:
            hold_against(table, row.label)
    _hold_against_ceilings(table)
    return [table, *_costs(found)]


def _costs(found: Mapping[str, Sequence[Drained]]) -> list[Table]:
    how = (
        "Processor time while the queue was drained, divided by the jobs that were done: that of all processes of the "
        "worker together, and that of the Redis server."
    )
    worker = Table(
        "drain", "a no-op job: processor time of the worker", "µs", how, digits=1, column="CPU µs/job, worker"
    )
    server = Table("drain", "a no-op job: processor time of Redis", "µs", how, digits=1, column="CPU µs/job, Redis")
    worker.rows, server.rows = rows_of(found, "worker_us"), rows_of(found, "server_us")
    return [worker, server] if worker.rows else []


def _hold_against_ceilings(table: Table) -> None:
    ours = table.row(OURS.name)
    for ceiling in filter(None, (table.row(one.name) for one in CEILINGS)):
        if ours:
            share = ours.median / ceiling.median
            ceiling.ratio = f"{share:.0%}"
            if ceiling.label == COMMANDS.name:
                table.judge(ceiling.label, ceiling.ratio, f">= {SHARE_OF_COMMANDS:.0%}", share >= SHARE_OF_COMMANDS)


def hold_against(table: Table, label: str, times: float = 0.0, note: str = "") -> None:
    ours, row = table.row(OURS.name), table.row(label)
    if ours and row:
        ratio = ours.median / row.median
        row.ratio, row.note = f"{ratio:.1f}x", note
        if times:
            table.judge(label, row.ratio, f">= {times:g}x", ratio >= times)


def processes(run: Run) -> list[Table]:
    table = Table(
        "processes", f"no-op jobs, {THREADS} threads each", "jobs/s",
        "As drain, with `processes = 1` and with 2, on a queue that is filled once they work.",
    )  # fmt: skip
    cost = Table(
        "processes", "a no-op job: processor time of the workers", "µs",
        "All processes of the worker together, their parent included.", digits=1,
    )  # fmt: skip
    if not run.available(OURS):
        return []
    found = run.in_turn(table, {_processes(n): partial(_many_processes, run, n) for n in (1, 2)})
    table.rows, cost.rows = rows_of(found, "rate"), rows_of(found, "worker_us")
    one, two = table.row(_processes(1)), table.row(_processes(2))
    if one and two:
        ratio = two.median / one.median
        table.judge(two.label, f"{ratio:.2f}x", f">= {TIMES_ONE_PROCESS}x", ratio >= TIMES_ONE_PROCESS)
    if len(cost.rows) > 1:
        cost.rows[1].ratio = f"{cost.rows[1].median / cost.rows[0].median:.2f}x"
    return [table, cost] if cost.rows else [table]


def _processes(number: int) -> str:
    return "one process" if number == 1 else f"{number} processes"


def _many_processes(run: Run, number: int) -> Drained:
    count = run.count_for(OURS)
    server = run.server.client
    with Site(run.server) as site:
        fill(server, count, "noop", [], key="aside")
        worker = site.worker(OURS, THREADS, OURS.worker(run.server.url, THREADS, "--processes", str(number)))
        site.await_idle([worker], number)
        server.rename("aside", KEYS.queue(QUEUE))
        return drained(run.server, lambda: OURS.left(server), worker, count)


def sleep(run: Run) -> list[Table]:
    systems = (OURS, *PEERS_OF_OURS)
    table = Table(
        "sleep", f"{NAP_MS} ms jobs, {NAP_THREADS} threads", "jobs/s",
        f"Jobs that sleep {NAP_MS} ms, {NAP_THREADS} at once: at most {LIMIT:,.0f} a second by arithmetic.",
        column=f"{NAP_MS} ms jobs/s",
    )  # fmt: skip
    measures: dict[str, Callable[[], float]] = {}
    for one in run.available(*systems):
        # Nobody is faster than the limit, so ours needs no more jobs than that takes.
        count = max(100, int(min(run.count_for(one), run.jobs * LIMIT / OURS.typical)))
        measures[one.name] = partial(_rate, run, one, count, "nap", [NAP_MS], NAP_THREADS)
    table.rows = rows(run.in_turn(table, measures))
    table.left_out |= run.reasons(systems)
    for row in table.rows:
        share = row.median / LIMIT
        row.ratio = f"{share:.1%}"
        if row.label == OURS.name:
            table.judge(row.label, row.ratio, f">= {SHARE_OF_LIMIT:.0%} of {LIMIT:,.0f}", share >= SHARE_OF_LIMIT)
    return [table]


def _rate(run: Run, system: System, count: int, job: str, args: Sequence[Any], threads: int = THREADS) -> float:
    return drain_once(run.server, system, count, job, args, threads).rate


def payload(run: Run) -> list[Table]:
    systems = (OURS, *PEERS_OF_OURS)
    tables = []
    for size, share, times_sidekiq in PAYLOADS:
        table = Table(
            "payload", f"no-op jobs with {size // 1_000} KB, {THREADS} threads", "jobs/s",
            f"As drain, each job with a text of {size:,} characters as its argument.",
        )  # fmt: skip
        measures = {
            one.name: partial(_rate, run, one, run.count_for(one, share), "noop", ["x" * size])
            for one in run.available(*systems)
        }
        table.rows = rows(run.in_turn(table, measures))
        table.left_out |= run.reasons(systems)
        for row in table.rows:
            if row.label != OURS.name:
                hold_against(table, row.label, times_sidekiq if row.label == SIDEKIQ.name else 1)
        tables.append(table)
    return [*tables, *_settling(run)] if run.available(OURS) else tables


def _settling(run: Run) -> list[Table]:
    how = (
        f"{IN_FLIGHT} threads, jobs of about {SETTLE_NAP_MS} ms. First the call alone that settles a batch, as its "
        "thread sees it. Then from the last line of each job to the end of the call that removes it."
    )
    calls = Table("payload", f"settling with {IN_FLIGHT} in flight, the call, p99", "ms", how, digits=2)
    ends = Table("payload", f"settling with {IN_FLIGHT} in flight, from a job's end, p99", "ms", how, digits=2)
    found = run.in_turn(calls, {f"{size // 1_000} KB": partial(_settle_p99s_ms, run, size) for size, *_ in PAYLOADS})
    for place, table in enumerate((calls, ends)):
        table.rows = rows({label: [each[place] for each in rounds] for label, rounds in found.items()})
    for row in calls.rows:
        calls.judge(row.label, "", f"< {SETTLE_MS:g} ms", row.median < SETTLE_MS)
    return [calls, ends]


def _settle_p99s_ms(run: Run, size: int) -> tuple[float, float]:
    """The jobs take long enough for the machine to idle: what is measured is the call, not the wait for a processor."""
    count = min(run.jobs, int(SETTLED_S * IN_FLIGHT * 1_000 / SETTLE_NAP_MS))
    with Site(run.server) as site:
        site.fill(OURS, count, "scattered", [SETTLE_NAP_MS, "x" * size])
        file = run.server.folder / "settles"
        command = [word.replace(OURS.jobs, "pyworkers_timed") for word in OURS.worker(run.server.url, IN_FLIGHT)]
        worker = site.worker(OURS, IN_FLIGHT, command, BENCH_SETTLES=str(file))
        rate_of(lambda: OURS.left(run.server.client), [worker], count)
        if worker.stop() != 0:
            raise Failed(f"it did not end well: {worker.tail()}")
        calls, ends = json.loads(file.read_text("utf-8"))
        return percentile(calls, 0.99) / 1e6, percentile(ends, 0.99) / 1e6
