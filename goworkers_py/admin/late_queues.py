"""Finds queues that fall behind: more jobs come than their threads can run, so that the queue becomes ever longer.

By Little's law, jobs that come at a rate and run for a mean time keep `rate * time` threads busy. Both are known at a
single look. A queue is in order, so the jobs that have come since the oldest one all wait in it, and tell their times.
How long jobs of their classes run, the minutes of the last hour tell.

Only the later half of the time that the oldest job has waited counts for the rate. So a burst, or what an outage has
left behind, is no finding: nothing comes after it, or less than the threads run, and the queue becomes shorter. In a
long queue the newest jobs are read, and the later half of the time that these have waited counts. Jobs that wait for a
limit are in its line, not in the queue.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from goworkers_py.admin.inspector import Inspector
from goworkers_py.admin.long_runs import BusyPool
from goworkers_py.admin.metrics import ClassMetrics
from goworkers_py.admin.places import waiting_in
from goworkers_py.brokers.contracts.admin import Glance
from goworkers_py.brokers.contracts.fleet import Process, QueueStats
from goworkers_py.core.values import dataclass
from goworkers_py.wire.process_record import OURS
from goworkers_py.wire.stored_job import StoredJob

LATE_S = 120.0  # while the oldest job has waited for less, a queue is not late
MOST_READ = 5_000  # jobs of a queue
LEAST_ARRIVALS = 3  # fewer tell no rate
SPARE = 1.25  # with threads for the rate alone, what waits now would wait for ever
WHOLE_CORE = 0.9  # the CPU share of a process whose threads wait for each other


@dataclass(frozen=True, slots=True)
class LateQueue:
    queue: str
    waits_s: float
    rate: float  # of the jobs that come, by the second
    run_s: float  # of the mean job
    threads: int  # of the pools that serve it
    of_others: int  # that run jobs of other queues of these pools
    processes: Sequence[Process]  # that serve it
    shares: bool  # its threads are those of other queues too

    @property
    def needed(self) -> int:
        """Threads of the pools."""
        return self.of_others + math.ceil(self.rate * self.run_s * SPARE)

    def __str__(self) -> str:
        own = self.threads - self.of_others
        on = f"{own} of {self.threads} threads" if self.shares else f"{own} thread{'s' * (own != 1)}"
        return (
            f"queue {self.queue} falls behind: its oldest job waits for {self.waits_s / 60:.0f} min; "
            f"{_a_minute(self.rate)} jobs a minute come, {_a_minute(own / self.run_s)} a minute end, each takes "
            f"{self.run_s:.2g} s on {on}: it needs {self.needed} threads"
        )

    @property
    def todo(self) -> str:
        several = len(self.processes)
        if all((process.cpu_share or 0) >= WHOLE_CORE for process in self.processes):
            more = math.ceil(self.needed / self.threads * several) - several
            return f"start {more} more of its processes: these use a whole core each, so more threads do not help"
        ours = all(process.version.startswith(OURS) for process in self.processes)
        each = f"concurrency = {math.ceil(self.needed / several)}"
        each += f" in each of its {several} processes" if several > 1 else ""
        if self.shares or not ours:
            return f"give its pool of threads {each}, or start more processes"
        return f"[queue:{self.queue}] {each}, or start more processes"


def late_queues(inspector: Inspector) -> Iterator[LateQueue]:
    late = [queue for queue in inspector.queues() if queue.latency_s >= LATE_S and not queue.paused]
    if not late or not inspector.knows_metrics:
        return
    working = [process for process in inspector.processes() if process.state == "working"]
    pools = [BusyPool(process.identity, pool.queues, pool.threads) for process in working for pool in process.pools]
    running = Counter((run.identity, run.queue) for run in inspector.running())
    runs = {metrics.job_class: metrics for metrics in inspector.metrics(1)}
    now = inspector.now()
    for queue in late:
        serving = [pool for pool in pools if queue.name in pool.queues and pool.threads > 0]
        if not serving:
            continue
        jobs = inspector.page(waiting_in(queue.name), limit=MOST_READ, glance=Glance()).jobs
        rate, run_s = _rate(jobs, queue, now), _mean_s(jobs, runs)
        if rate is None or run_s is None:
            continue
        threads = sum(pool.threads for pool in serving)
        of_others = sum(running[pool.identity, other] for pool in serving for other in {*pool.queues} - {queue.name})
        identities = {pool.identity for pool in serving}
        found = LateQueue(
            queue.name, queue.latency_s, rate, run_s, threads, min(of_others, threads),
            [process for process in working if process.identity in identities],
            any(len(pool.queues) > 1 for pool in serving),
        )  # fmt: skip
        if rate * run_s > threads - found.of_others:
            yield found


def _rate(newest: Sequence[StoredJob], queue: QueueStats, now: float) -> float | None:
    """The jobs that come by the second, from the newest ones."""
    messages = [job.message for job in newest if job.message is not None]
    ages = [now - at for message in messages if (at := message.enqueued_at or message.created_at) is not None]
    span_s = queue.latency_s / 2
    if ages and len(newest) < queue.size:  # they may not reach back so far
        span_s = min(span_s, max(*ages, 2.0) / 2)
    came = sum(age <= span_s for age in ages)
    return came / span_s if came >= LEAST_ARRIVALS else None


def _mean_s(jobs: Sequence[StoredJob], runs: Mapping[str, ClassMetrics]) -> float | None:
    """Estimates how long the mean of the jobs will run, as those of its class have run. None when no class has run."""
    classes = Counter(job.message.job_class for job in jobs if job.message is not None)
    known = [(count, mean) for name, count in classes.items() if (mean := _mean_ms(runs.get(name))) is not None]
    waiting = sum(count for count, _ in known)
    total_ms = sum(count * mean for count, mean in known)
    return total_ms / waiting / 1000 if total_ms else None


def _mean_ms(metrics: ClassMetrics | None) -> float | None:
    return None if metrics is None else metrics.mean_ms


def _a_minute(rate: float) -> str:
    minutely = rate * 60
    return f"{minutely:,.0f}" if minutely >= 10 else f"{minutely:.2g}"
