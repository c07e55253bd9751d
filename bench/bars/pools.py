"""Queues that share the threads of a pool: how long an important job waits, who gets which share, and at what cost."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from bench import wire
from bench.bars.latency import row_of
from bench.measure import (
    FIRST_JOB_S,
    LEAST_PAUSE_S,
    SETTLING_IN_S,
    USUAL_PAUSE_S,
    WARM_UPS,
    Drained,
    Site,
    drained,
    rate_of,
)
from bench.programs import Failed, Program
from bench.report import Row, Table
from bench.run import Run, rows_of
from bench.systems import KEYS, OURS, QUEUE

THREADS = 10
CRITICAL, LOW = "critical", "low"
QUEUES, WEIGHTS = (CRITICAL, "default", LOW), (6, 3, 1)
USUAL_JOBS = 60_000  # the counts are those at this many; smaller runs have smaller ones

LOW_MS, CRITICALS, MORE_MS = (1, 10, 50), 500, 5
LEAST_APART_S, MOST_APART_S, SPARE_S = 0.002, 0.012, 5.0
SHARED_JOBS, SHARE_WITHIN = 10_000, 0.05
TEN = tuple(f"queue {number} of 10" for number in range(1, 11))
STAMPS, TIMES_ONE_QUEUE = 300, 1.3
SHARE_OF_ONE_QUEUE = 0.97

ONE_QUEUE = "one queue"


def pools(run: Run) -> list[Table]:
    if not run.available(OURS):
        return []
    return [*_waits(run), _shares(run), _starts(run), *_drains(run)]


def _start(site: Site, queues: Sequence[str], weights: Sequence[int] = ()) -> Program:
    """A worker whose threads these queues share. A single one is that of every other bar."""
    if queues == [QUEUE]:
        return site.worker(OURS, THREADS)
    file = site.server.folder / "pool.ini"
    order = f"weights = {', '.join(map(str, weights))}" if weights else "order = strict"
    file.write_text(f"[pool:bench]\nqueues = {', '.join(queues)}\n{order}\nconcurrency = {THREADS}\n", "utf-8")
    return site.worker(OURS, THREADS, OURS.run(site.server.url, "-c", str(file)))


def _count(run: Run, usual: int) -> int:
    return max(20, int(usual * min(1.0, run.jobs / USUAL_JOBS)))


def _push_stamp(run: Run, queue: str) -> None:
    [payload] = wire.payloads(1, "stamp", [time.monotonic_ns()], queue)
    run.server.client.lpush(KEYS.queue(queue), payload)


# --- how long an important job waits


def _waits(run: Run) -> list[Table]:
    count = _count(run, CRITICALS)
    how = (
        f"A pool of {len(QUEUES)} queues in strict order, {THREADS} threads. Jobs that sleep fill the lowest queue; "
        f"{count} jobs are pushed to the highest one, one after the other. From just before the push to the first line."
    )
    medians = Table("pools", "wait of a critical job behind low ones, p50", "ms", how, digits=2)
    tails = Table("pools", "wait of a critical job behind low ones, p99", "ms", how, digits=2)
    labels = {f"low jobs of {low_ms} ms": low_ms for low_ms in LOW_MS}
    found = run.in_turn(medians, {label: partial(_critical_ns, run, count, low_ms) for label, low_ms in labels.items()})
    medians.rows = [row_of(label, rounds, 0.5) for label, rounds in found.items()]
    tails.rows = [row_of(label, rounds, 0.99) for label, rounds in found.items()]
    for row in tails.rows:
        most = labels[row.label] + MORE_MS
        tails.judge(row.label, "", f"<= {most} ms: one low job + {MORE_MS} ms", row.median <= most)
    return [medians, tails]


def _critical_ns(run: Run, count: int, low_ms: int) -> list[int]:
    # The low jobs must outlast the critical ones, also where the benchmark itself is slowed down.
    lasts_s = SETTLING_IN_S + count * (LEAST_APART_S + MOST_APART_S) / 2 + SPARE_S
    with Site(run.server) as site:
        wire.fill(run.server.client, int(THREADS * lasts_s * 1_000 / low_ms), "nap", [low_ms], LOW)
        worker = _start(site, QUEUES)
        _push_stamp(run, CRITICAL)
        site.await_stamps(1, [worker], FIRST_JOB_S)
        time.sleep(SETTLING_IN_S)
        for _ in range(count):
            _push_stamp(run, CRITICAL)
            time.sleep(random.uniform(LEAST_APART_S, MOST_APART_S))
        site.await_stamps(1 + count, [worker])
        if not run.server.client.llen(KEYS.queue(LOW)):
            raise Failed("the low jobs came to an end before the critical ones")
        return site.stamps()[1:]


# --- shares


def _shares(run: Run) -> Table:
    count = _count(run, SHARED_JOBS)
    table = Table(
        "pools", f"shares of the first {count:,} jobs, weights {':'.join(map(str, WEIGHTS))}", "%",
        f"A pool of {len(QUEUES)} full queues with weights. Each job notes when it began.", digits=2,
    )  # fmt: skip
    found = run.in_turn(table, {"shares": partial(_shares_percent, run, count)}).get("shares", [])
    for place, weight in enumerate(WEIGHTS if found else ()):
        row = Row(f"weight {weight}", [shares[place] for shares in found])
        table.rows.append(row)
        beside = row.median / (100 * weight / sum(WEIGHTS)) - 1
        table.judge(
            row.label, f"{beside:+.1%}", f"within {SHARE_WITHIN:.0%} of its weight", abs(beside) <= SHARE_WITHIN
        )
    return table


def _shares_percent(run: Run, count: int) -> list[float]:
    with Site(run.server) as site:
        for place, queue in enumerate(QUEUES):
            wire.fill(run.server.client, count, "trace", [0, place], queue)
        worker = _start(site, QUEUES, WEIGHTS)
        rate_of(lambda: OURS.left(run.server.client, QUEUES), [worker], len(QUEUES) * count)
        lines = [line.split() for line in run.server.stamps.read_text("utf-8").splitlines()]
    begun = sorted((int(began), int(place)) for _, began, _, place in lines)
    first = Counter(place for _, place in begun[:count])
    return [100 * first[place] / count for place in range(len(QUEUES))]


# --- idle


def _starts(run: Run) -> Table:
    table = Table(
        "pools", "idle, push to first line, p50", "ms",
        f"One job at a time on an idle worker with {THREADS} threads: for one queue, or in turn for each of a pool of "
        f"{len(TEN)}. The benchmark itself pushes.",
        digits=2,
    )  # fmt: skip
    queues = [name.replace(" ", "-") for name in TEN]
    found = run.in_turn(table, {ONE_QUEUE: partial(_starts_ns, run, [QUEUE]), "pool": partial(_starts_ns, run, queues)})
    one, ten = found.get(ONE_QUEUE, []), found.get("pool", [])
    table.rows += [row_of(ONE_QUEUE, [stamps for [stamps] in one], 0.5)] if one else []
    table.rows += [row_of(name, [each[place] for each in ten], 0.5) for place, name in enumerate(TEN) if ten]
    for row in table.rows[1:] if one else []:
        ratio = row.median / table.rows[0].median
        table.judge(row.label, f"{ratio:.2f}x", f"<= {TIMES_ONE_QUEUE}x", ratio <= TIMES_ONE_QUEUE)
    return table


def _starts_ns(run: Run, queues: Sequence[str]) -> list[list[int]]:
    """For each queue. As many jobs do not count for each: WARM_UPS is a multiple of both numbers of queues."""
    laps = _count(run, STAMPS) // len(queues)
    with Site(run.server) as site:
        worker = _start(site, queues)
        site.await_idle([worker], len(queues))
        for number in range(WARM_UPS + laps * len(queues)):
            time.sleep(random.uniform(LEAST_PAUSE_S, USUAL_PAUSE_S))
            _push_stamp(run, queues[number % len(queues)])
            site.await_stamps(number + 1, [worker])
        stamps = site.stamps()[WARM_UPS:]
    return [stamps[place :: len(queues)] for place in range(len(queues))]


# --- what a pool costs


def _drains(run: Run) -> list[Table]:
    rates = Table(
        "pools", f"no-op jobs, {THREADS} threads", "jobs/s",
        f"As drain: the same number of jobs in one queue, or in the {len(QUEUES)} queues of a pool in equal parts.",
    )  # fmt: skip
    cost = Table("pools", "a no-op job: processor time of the worker", "µs", rates.how, digits=1)
    found = run.in_turn(
        rates,
        {
            ONE_QUEUE: partial(_drain, run, [QUEUE]),
            "pool, strict order": partial(_drain, run, QUEUES),
            "pool, weights": partial(_drain, run, QUEUES, WEIGHTS),
        },
    )
    rates.rows, cost.rows = rows_of(found, "rate"), rows_of(found, "worker_us")
    one, used = rates.row(ONE_QUEUE), cost.row(ONE_QUEUE)
    for row in rates.rows[1:] if one else []:
        share = row.median / one.median
        rates.judge(row.label, f"{share:.0%}", f">= {SHARE_OF_ONE_QUEUE:.0%}", share >= SHARE_OF_ONE_QUEUE)
    for row in cost.rows[1:] if used else []:
        row.ratio = f"{row.median / used.median:.2f}x"
    return [rates, cost] if cost.rows else [rates]


def _drain(run: Run, queues: Sequence[str], weights: Sequence[int] = ()) -> Drained:
    each = run.count_for(OURS) // len(queues)
    server = run.server.client
    with Site(run.server) as site:
        for queue in queues:
            wire.fill(server, each, "noop", [], queue)
        worker = _start(site, queues, weights)
        return drained(run.server, lambda: OURS.left(server, queues), worker, each * len(queues))
