"""Whether a job waits in one process while a worker of another has nothing to do."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import pairwise

from bench import wire
from bench.measure import Site, rate_of
from bench.programs import Failed
from bench.report import Table
from bench.run import Run, rows
from bench.systems import KEYS, OURS, QUEUE

PROCESSES, THREADS = 2, 5
# What may be fetched ahead is 20 ms of work; the rest is for a machine with fewer cores than threads.
LONGEST_MS = 30.0
LONG_MS, SHORT_MS, VERY_LONG_MS, ONE_IN = 100, 1, 1_000, 50
LONG_JOBS, MIXED_JOBS = 200, 1_000
USUAL_JOBS = 60_000


def fairness(run: Run) -> list[Table]:
    table = Table(
        "fairness", f"{PROCESSES} processes with {THREADS} threads: longest idleness of a worker while jobs wait", "ms",
        "Each job notes when it began, when it ended, and in which thread. A worker is idle from the end of a job to "
        "the start of its next one or, if it has none, to that of the last job of all.",
        digits=1,
    )  # fmt: skip
    if not run.available(OURS):
        return []
    share = max(0.1, min(1.0, run.jobs / USUAL_JOBS))
    long = [LONG_MS] * int(LONG_JOBS * share)
    mixed = [SHORT_MS if number % ONE_IN else VERY_LONG_MS for number in range(int(MIXED_JOBS * share))]
    measures = {
        f"{LONG_MS} ms jobs": partial(_longest_idleness_ms, run, long),
        f"{SHORT_MS} ms jobs, one in {ONE_IN} of {VERY_LONG_MS // 1_000} s": partial(_longest_idleness_ms, run, mixed),
    }
    table.rows = rows(run.in_turn(table, measures))
    for row in table.rows:
        table.judge(row.label, "", f"<= {LONGEST_MS:g} ms", row.median <= LONGEST_MS)
    return [table]


def _longest_idleness_ms(run: Run, jobs_ms: list[int]) -> float:
    server = run.server.client
    with Site(run.server) as site:
        for number, job_ms in enumerate(jobs_ms):
            server.lpush("aside", *wire.payloads(1, "trace", [job_ms, number]))
        workers = site.ready(OURS, PROCESSES, THREADS)
        server.rename("aside", KEYS.queue(QUEUE))
        rate_of(lambda: OURS.left(server), workers, len(jobs_ms))
        lines = [line.split() for line in run.server.stamps.read_text("utf-8").splitlines()]
    if len(lines) != len(jobs_ms):
        raise Failed(f"{len(jobs_ms)} jobs, {len(lines)} runs")
    return _longest_gap_ns([(thread, int(began), int(ended)) for thread, began, ended, _ in lines]) / 1e6


def _longest_gap_ns(runs: list[tuple[str, int, int]]) -> int:
    last_begin = max(began for _, began, _ in runs)
    of_thread = defaultdict(list)
    for thread, began, ended in runs:
        of_thread[thread].append((began, ended))
    gaps = [0]
    for spans in of_thread.values():
        spans.sort()
        gaps += [after[0] - before[1] for before, after in pairwise(spans)]
        gaps.append(last_begin - spans[-1][1])
    return max(gaps)
