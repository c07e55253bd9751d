"""Atomic finish: the pushes of a job happen in the step that ends it.

Inside of `with workers.atomic():` in a job, its pushes are held back. When the code of the job has returned, they are
effects of its outcome: the step that settles the job makes them, and a job that fails has pushed nothing. Pushes to
another broker go into the outbox of the job's broker in that step, and a process relays them. Outside of a job, the end
of the block publishes.

In the engine: `core.push_blocks`, the effects PushJobs and PostJobs, and the outbox with `runtime.scheduling.relay`. In
Redis, `brokers/redis/lua/fragments/queue_effects.lua` does these effects in the step of the settlement (`settle.lua`).

- `api`: `workers.atomic()` and `@job(atomic=True)`. `job_options`: the option.
- `held_pushes`: what is held back, and what becomes of it at the end of the job.

For users: docs/jobs.md and docs/not-twice.md, under "Jobs that push jobs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.features.in_process import WorkerProcess


class AtomicFeature(Feature):
    """The pushes of a job happen in the step that ends it."""

    options_of_code = "AtomicOptions"

    def code(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
        if not options.get("atomic"):
            return function
        from goworkers_py.features.atomic.api import atomically

        return atomically(function)

    def in_process(self, process: WorkerProcess) -> None:
        # For `workers.atomic()`: a first import in the code of a job takes a lock, and exceptions may be thrown there.
        import goworkers_py.features.atomic.api  # noqa: F401


FEATURE = AtomicFeature()
