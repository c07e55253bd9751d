"""The number of waiting jobs and the number of queues should not matter."""

from __future__ import annotations

from functools import partial

from bench.measure import Site, idle_cpu_percent, rate_of
from bench.programs import Failed
from bench.report import Row, Table
from bench.run import Run
from bench.systems import KEYS, OURS, QUEUE
from bench.wire import fill

THREADS = 10
BACKLOGS = (1_000, 100_000, 2_000_000)
USUAL_JOBS = 60_000  # the backlogs are those at this many; smaller runs have smaller ones
STARVED_SHARE = 0.2
RATE_WITHIN, MEMORY_WITHIN = 0.10, 0.05

QUEUES = {1: 5.0, 20: 5.0, 200: 20.0}  # for how many seconds the use while idle is measured
BUSY_WITHIN, IDLE_CPU_PERCENT, MORE_CONNECTIONS = 0.20, 2.0, 10

# Keeps the queue at ARGV[1] jobs out of a reservoir; answers how many it had left, and how many are in the reservoir.
TOP_UP = """
local length = redis.call('LLEN', KEYS[2])
for i = length + 1, tonumber(ARGV[1]) do
  if not redis.call('RPOPLPUSH', KEYS[1], KEYS[2]) then break end
end
return {length, redis.call('LLEN', KEYS[1])}
"""


def backlog(run: Run) -> list[Table]:
    rates = Table(
        "backlog", f"no-op jobs, {THREADS} threads, by backlog: rate", "jobs/s",
        "The same number of jobs is run in front of each backlog; that of 1,000 is topped up by a script meanwhile.",
    )  # fmt: skip
    memory = Table("backlog", "by backlog: memory of the worker process", "MB", rates.how, digits=1)
    if not run.available(OURS):
        return []
    sizes = [max(200, int(size * min(1.0, run.jobs / USUAL_JOBS))) for size in BACKLOGS[1:]]
    labels = {f"{size:,}": size for size in (BACKLOGS[0], *sizes)}
    found = run.in_turn(rates, {label: partial(_behind, run, size) for label, size in labels.items()})
    rates.rows = [Row(label, [rate for rate, _ in pairs]) for label, pairs in found.items()]
    memory.rows = [Row(label, [used for _, used in pairs]) for label, pairs in found.items()]
    _same(rates, RATE_WITHIN)
    _same(memory, MEMORY_WITHIN)
    rates.extra["backlogs"] = list(labels.values())
    return [rates, memory]


def _same(table: Table, within: float) -> None:
    """As the first row."""
    for row in table.rows[1:]:
        ratio = row.median / table.rows[0].median
        table.judge(row.label, f"{ratio - 1:+.1%}", f"within {within:.0%}", abs(ratio - 1) <= within)


def _behind(run: Run, size: int) -> tuple[float, float]:
    """Jobs a second, and the worker's memory in MB."""
    count = min(run.count_for(OURS), size) if size > BACKLOGS[0] else run.count_for(OURS)
    server = run.server.client
    with Site(run.server) as site:
        queue = KEYS.queue(QUEUE)
        topped = size < count
        if topped:
            fill(server, count, "noop", [], key="reservoir")
        fill(server, size, "noop", [])
        script = server.register_script(TOP_UP)
        looks = starved = 0

        def left() -> int:
            """Of the `count` jobs that are run; the backlog itself does not count."""
            nonlocal looks, starved
            if not topped:
                return max(0, OURS.left(server) - (size - count))
            length, reserve = script(keys=["reservoir", queue], args=[size])
            looks, starved = looks + 1, starved + (reserve > 0 and length == 0)
            return int(reserve)

        worker = site.worker(OURS, THREADS)
        rate = rate_of(left, [worker], count)
        if starved > looks * STARVED_SHARE:
            raise Failed(f"found empty {starved} times of {looks}: the machine is too busy to keep the queue topped up")
        return rate, worker.resident_mb()


def queues(run: Run) -> list[Table]:
    how = f"One queue is busy, with {THREADS} threads; the others have nothing to do, and one thread each."
    busy = Table("queues", "by number of queues: rate of the busy one", "jobs/s", how)
    idle = Table("queues", "by number of queues: processor use while all are idle", "%", how, digits=2)
    lines = Table("queues", "by number of queues: connections", "connections", how)
    if not run.available(OURS):
        return []
    labels = {f"{number} queue{'s'[: number > 1]}": number for number in QUEUES}
    found = run.in_turn(busy, {label: partial(_with_queues, run, number) for label, number in labels.items()})
    for table, place in ((busy, 0), (idle, 1), (lines, 2)):
        table.rows = [Row(label, [figures[place] for figures in rounds]) for label, rounds in found.items()]
    _same(busy, BUSY_WITHIN)
    for row in idle.rows:
        idle.judge(row.label, "", f"< {IDLE_CPU_PERCENT:g} %", row.median < IDLE_CPU_PERCENT)
    for row in lines.rows:
        most = labels[row.label] + MORE_CONNECTIONS
        lines.judge(row.label, "", f"<= queues + {MORE_CONNECTIONS}", row.median <= most)
    return [busy, idle, lines]


def _with_queues(run: Run, number: int) -> tuple[float, float, float]:
    """The busy queue's rate, the idle use of the processor in percent, and the connections."""
    server, count = run.server.client, run.count_for(OURS)
    flags = [word for other in range(1, number) for word in ("-q", f"other{other}=1")]
    with Site(run.server) as site:
        worker = site.worker(OURS, THREADS, OURS.worker(run.server.url, THREADS, *flags))
        site.await_idle([worker], number)
        used = idle_cpu_percent(worker, QUEUES[number])
        connections = run.server.connections()
        fill(server, count, "noop", [], key="aside")
        server.rename("aside", KEYS.queue(QUEUE))
        rate = rate_of(lambda: OURS.left(server), [worker], count)
        return rate, used, connections
