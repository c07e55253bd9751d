"""Finds queues in which every thread has been running the same job for minutes while other jobs wait.

This may be normal, for some jobs are long. But a job that hangs and has no time limit looks the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from goworkers_py.admin.filter import counted
from goworkers_py.admin.inspector import Inspector
from goworkers_py.core.values import dataclass

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


@dataclass(frozen=True, slots=True)
class BusyPool:
    """Threads of one process, and the queues that share them."""

    identity: str
    queues: tuple[str, ...]
    threads: int

    def begun(self, running: Mapping[tuple[str, str], list[float]]) -> list[float]:
        """When each job that these threads run began. `running`: by process and queue."""
        return [since for queue in self.queues for since in running.get((self.identity, queue), ())]


def long_runs(inspector: Inspector, long_run_s: float = LONG_RUN_S) -> Iterator[LongRuns]:
    pools = [
        BusyPool(process.identity, pool.queues, pool.threads)
        for process in inspector.processes()
        for pool in process.pools
    ]
    running: dict[tuple[str, str], list[float]] = {}
    for run in inspector.running():
        if run.since is not None:
            running.setdefault((run.identity, run.queue), []).append(run.since)
    now = inspector.now()
    live = [owner for owner in inspector.owners() if owner.alive]
    for queue in inspector.queues():
        serving = [pool for pool in pools if queue.name in pool.queues and pool.threads > 0]
        begun = [pool.begun(running) for pool in serving]
        occupied = all(len(since) >= pool.threads for pool, since in zip(serving, begun, strict=True))
        newest = max((since for several in begun for since in several), default=now)
        if queue.paused or not serving or not occupied or now - newest <= long_run_s:
            continue
        of_queue = sum(len(running.get((pool.identity, queue.name), ())) for pool in serving)
        waiting = queue.size + max(0, inspector.held(live, queue.name) - of_queue)
        if waiting:
            yield LongRuns(queue.name, sum(pool.threads for pool in serving), now - newest, waiting)
