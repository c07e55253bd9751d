"""RQ: its pool of workers, with its scheduler."""

from __future__ import annotations

from bench.torture.systems.python_peer import PythonPeer
from bench.torture.systems.system import THREADS, Place


class RQ(PythonPeer):
    name = "rq"
    requirement = "rq==3.0.0"
    settings = "`Retry(25)` for each job, `worker_ttl` 30, `job_monitoring_interval` 5, `maintenance_interval` 10"
    notes = """\
A job whose worker died is run again only if it has retries (its page "Exceptions & Retries"), so each job has 25. The
three times are options of `rq worker` (its page "Workers"), set by a class as `rq worker-pool` has no options for them.
A job is taken for abandoned a minute after its worker's last sign, which is no option. It has no threads: a worker here
is a pool of five processes, each of which forks for each job. Who looks for abandoned jobs takes a lock of 899 s, which
is no option; it stays if that process dies, so the run waits for it.
"""
    losses = """\
Jobs are lost that fail just when Redis goes away: their failure cannot be stored (`failed to persist failure`). The
record of the job stays in Redis, but no queue and no registry names it. A job whose end could not be stored is run
again.
"""
    settle_s = 1_020.0  # the lock, a minute for a job that died before its run began, looks, and a retry

    def worker(self, place: Place) -> list[str]:
        return [self.program("rq"), "worker-pool", "-u", place.url, "-n", str(THREADS), "-w", "rq_app.Quick", "default"]
