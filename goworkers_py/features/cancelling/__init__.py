"""Cancelling: a job that people cancel does not begin, or is interrupted.

A cancel leaves a *tombstone* in the broker first, then removes the job from where it waits (`admin`). Each process
knows all tombstones: its canceller thread is told of a new one at once, and compares now and then (`service`). While
there is one, an alarm is raised, so that every job is looked at before it begins (`run`); no job pays a look at the
broker. The thread throws JobCancelled into a job that runs, by `links.interruption`. The process that meets the job
settles it with the effect MeetTombstone (`effects`): the tombstone goes, and the caller is told how the job has ended.

A batch or a chain is cancelled by one tombstone under its name, which its jobs have in their payloads.

In the engine: `links.interruption` throws into a running job, and does so for a job that was given to another process,
too; `core.cancel_request`, the outcome Cancelled, and `runtime.alarms`.

- `tombstone`: the values. `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do
  it. Other programs cancel in ways of their own: `ForeignCancel` in the parts of Redis.
- `api`: the functions of `workers.on_cancel`. `admin`: verbs of the inspector.
- `commands`, `views`: people cancel.
- `steps`: a job that cancels others, in `crash_points`.

For users: docs/cancelling.md and docs/stop-it.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.features.cancelling.contract import Cancels
    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.features.parts import ForTests, Moves
    from goworkers_py.web.site.table import FeaturePages


class CancellingFeature(Feature):
    """A job that people cancel does not begin, or is interrupted."""

    contract, kept = "Cancels", "cancels of jobs"
    verbs = "CancelVerbs"

    def moves(self) -> Moves:
        from goworkers_py.features.cancelling.effects import MOVES

        return MOVES

    def for_tests(self) -> ForTests:
        from goworkers_py.features.cancelling.steps import FOR_TESTS

        return FOR_TESTS

    def in_process(self, process: WorkerProcess) -> InProcess | None:
        from goworkers_py.features.cancelling.contract import Cancels
        from goworkers_py.features.cancelling.run import CancellableRuns
        from goworkers_py.features.cancelling.service import Canceller

        cancels, registry, shared = process.broker.part(Cancels), process.plan.registry, process.shared
        if cancels is None:
            return None
        canceller = Canceller(cancels, registry, process.running, shared.outage, shared.alarms)
        return CancellableRuns(cancels, registry, canceller)

    # --- brokers

    def part(self, family: str) -> Callable[[Any], Cancels] | None:
        if family == "redis":
            from goworkers_py.features.cancelling.redis import RedisCancels

            return lambda broker: RedisCancels(broker.connections, broker.keys, broker.listener)
        if family == "memory":
            from goworkers_py.features.cancelling.memory import MemoryCancels

            return lambda broker: MemoryCancels(broker.state)
        return None

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.cancelling.memory import TombstoneTable

        return TombstoneTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.cancelling.redis_part import part

        return part()

    # --- people

    commands = ("job cancel",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.cancelling.commands import cancel

        return cancel

    def pages(self) -> FeaturePages:
        from goworkers_py.features.cancelling.views import PAGES

        return PAGES


FEATURE = CancellingFeature()
