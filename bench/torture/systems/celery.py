"""Celery with late acknowledgement, on Redis."""

from __future__ import annotations

from bench.torture.systems.python_peer import PythonPeer
from bench.torture.systems.system import THREADS, Place


class Celery(PythonPeer):
    name = "celery"
    requirement = "celery[redis]==5.7.0"
    settings = (
        "`task_acks_late`, `task_reject_on_worker_lost`, `worker_prefetch_multiplier` 1, `visibility_timeout` 60, "
        "`worker_cancel_long_running_tasks_on_connection_loss`"
    )
    notes = """\
Late acknowledgement is what its page "Tasks" (on `acks_late`) and its frequently asked questions advise for jobs that
must not get lost. `task_reject_on_worker_lost` is for a child that is killed alone. The prefetch is the one of its page
"Optimizing" (reserve one task at a time). A worker of this release asks for the cancelling of tasks on connection loss
when it starts. The visibility timeout of its page "Using Redis" is an hour by default; it must be longer than the
longest delay, so it is a minute here. The pool is its default, prefork.
"""
    losses = """\
Jobs are lost in two ways. A message is taken off its queue by BRPOP, and noted as not acknowledged by a second command.
If that one is refused, or the worker loses Redis between the two, the message is gone: such jobs were never logged as
received. A retry that cannot be published, because Redis is full, is logged as `reject requeue=False`. A worker ends at
an error of Redis that is not about its connection, such as that of a full server.
"""
    settle_s = 110.0  # the visibility timeout of the last delivery, a look each 10 s, and the run

    def worker(self, place: Place) -> list[str]:
        name = f"{place.name}@%h"
        return [self.program("celery"), "-A", "celery_app", "worker", "-c", str(THREADS), "-n", name, "-l", "INFO"]
