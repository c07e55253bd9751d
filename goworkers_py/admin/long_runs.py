"""Queues whose every thread has been running the same job for minutes while other jobs wait.

That need not be wrong: some jobs are long. But a job without a time limit that hangs looks the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from goworkers_py.admin.entries import counted
from goworkers_py.admin.in_progress import InProgress
from goworkers_py.admin.processes import Processes
from goworkers_py.admin.queues import Queues
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.keys import Keys

LONG_RUN_S = 300.0


@dataclass(frozen=True, slots=True)
class LongRuns:
    queue: str
    threads: int  # of all processes
    newest_s: float  # for how long the job runs that began last
    waiting: int  # in the queue, and in the hands of processes that have not begun them

    def __str__(self) -> str:
        return (
            f"no job of queue {self.queue} has begun for {self.newest_s / 60:.0f} min: jobs that run for longer hold "
            f"all of its threads ({self.threads}), and {counted(self.waiting)} wait"
        )


def long_runs(connections: Connections, keys: Keys) -> Iterator[LongRuns]:
    fleet = Processes(connections, keys)
    processes = {one.identity: one.threads for one in fleet.all()}
    begun: dict[str, list[float]] = {}
    for one in fleet.running():
        if one.identity in processes:
            begun.setdefault(one.queue, []).append(one.since)
    now = int(connections.call("TIME")[0])
    in_progress = InProgress(connections, keys)
    live = [owner for owner in in_progress.owners() if owner.alive]
    for queue in Queues(connections, keys).all():
        running = begun.get(queue.name, [])
        threads = sum(threads.get(queue.name, 0) for threads in processes.values())
        if queue.paused or not 0 < threads <= len(running) or now - max(running) <= LONG_RUN_S:
            continue
        waiting = queue.size + max(0, in_progress.held_of(queue.name, live) - len(running))
        if waiting:
            yield LongRuns(queue.name, threads, now - max(running), waiting)
