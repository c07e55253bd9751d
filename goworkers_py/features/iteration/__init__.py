"""Iterable jobs: generator functions that go on where an earlier run has stopped.

Each `yield VALUE` of the job's code says that all work up to VALUE is done: VALUE is the job's *cursor*. A run stores
it now and then (a checkpoint), and in the step that settles the run. A run ends early at a `yield`: when its process
stops, when its time slice is over, when the job is cancelled. Then the job goes back into its queue, and its next run,
in whatever process, gets the cursor. Each run has a number, so that an earlier run that goes on by mistake stores
nothing.

In the engine: `links.perform` gives what the job's code has returned to `resume` of this feature.

- `iterable`: which functions are iterable jobs. `cursor`: the values that a broker keeps.
- `run`: runs such a job from its cursor on. `effects`: the cursor is kept, or forgotten, in the step of the end.
- `job_options`: `time_slice=` and `checkpoint=`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it, in Redis with the keys
  of Sidekiq 7.3. `access`: the rules for these keys.
- `steps`: checkpoints and yields in `crash_points`.

For users: docs/iteration.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.features.iteration.contract import Iterations
    from goworkers_py.features.parts import ForTests


class IterationFeature(Feature):
    """A generator function goes on where an earlier run has stopped."""

    contract, kept = "Iterations", "cursors of iterable jobs"
    options = "IterationOptions"
    needs: ClassVar = {"iterate": "0.4.0"}

    def check_function(self, function: Callable[..., Any]) -> None:
        from goworkers_py.features.iteration.iterable import check_cursor

        check_cursor(function)

    def resumes(self, function: Callable[..., Any]) -> bool:
        from goworkers_py.features.iteration.iterable import is_iterable

        return is_iterable(function)

    def in_process(self, process: WorkerProcess) -> InProcess:
        from goworkers_py.features.iteration.run import IterableRuns

        return IterableRuns(process)

    # --- brokers

    def part(self, family: str) -> Callable[[Any], Iterations] | None:
        if family == "redis":
            from goworkers_py.features.iteration.redis import RedisIterations

            return lambda broker: RedisIterations(broker.connections, broker.keys)
        if family == "memory":
            from goworkers_py.features.iteration.memory import MemoryIterations

            return lambda broker: MemoryIterations(broker.state)
        return None

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.iteration.memory import CursorTable

        return CursorTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.iteration.redis_part import part

        return part()

    def for_tests(self) -> ForTests:
        from goworkers_py.features.iteration.steps import FOR_TESTS

        return FOR_TESTS

    # --- people

    def access(self) -> FeatureAccess:
        from goworkers_py.features.iteration.access import ACCESS

        return ACCESS


FEATURE = IterationFeature()
