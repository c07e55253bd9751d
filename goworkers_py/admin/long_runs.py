"""Finds queues in which every thread has been running the same job for minutes while other jobs wait.

This may be normal, for some jobs are long. But a job that hangs and has no time limit looks the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from goworkers_py.admin.filter import counted
from goworkers_py.admin.inspector import Inspector

LONG_RUN_S = 300.0


@dataclass(frozen=True, slots=True)
class LongRuns:
    queue: str
    threads: int  # of all processes
    newest_s: float  # how long the job that began last has been running
    waiting: int  # jobs in the queue, and jobs that processes have fetched and not begun

    def __str__(self) -> str:
        return (
            f"no job of queue {self.queue} has begun for {self.newest_s / 60:.0f} min: long-running jobs occupy all of "
            f"its threads ({self.threads}), waiting: {counted(self.waiting)}"
        )


def long_runs(inspector: Inspector, long_run_s: float = LONG_RUN_S) -> Iterator[LongRuns]:
    processes = {one.identity: one.threads for one in inspector.processes()}
    begun: dict[str, list[float]] = {}
    for one in inspector.running():
        if one.identity in processes:
            begun.setdefault(one.queue, []).append(one.since)
    now = inspector.now()
    live = [owner for owner in inspector.owners() if owner.alive]
    for queue in inspector.queues():
        running = begun.get(queue.name, [])
        threads = sum(threads.get(queue.name, 0) for threads in processes.values())
        if queue.paused or not 0 < threads <= len(running) or now - max(running) <= long_run_s:
            continue
        waiting = queue.size + max(0, inspector.held(live, queue.name) - len(running))
        if waiting:
            yield LongRuns(queue.name, threads, now - max(running), waiting)
