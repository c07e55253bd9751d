"""Statuses for Ruby: the gem sidekiq-status shows a job that runs here, and how far it has got.

A class with the option `sidekiq_status` is tracked (`features.tracking`), and its jobs have, beside their record, the
hash in which the gem looks. Tracking knows nothing of that: the run of such a job begins here (`run`), and gives its
tracked run the effects that are to happen in the step that writes the record of a running job. Each end of the run adds
an effect too (`effects`). A job that killed its processes is shown as failed by its recovery (`end`). Ruby can ask to
stop a job in the same hash. In the engine: `Message.shown`, and ForeignCancel in `brokers.redis.parts`.

- `status`: the words and the fields of the hash. `job_options`: `sidekiq_status=` of `@job`.
- `redis_part`, `lua/`: the hash in Redis, and the channel on which it is told. `memory`: no Ruby reaches it.
- `access`: the access rules.

For users: docs/job-states.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.config.options import Config
    from goworkers_py.features.in_process import InProcess, Recovering, WorkerProcess
    from goworkers_py.policy.registry import Registry


class RubyStatusFeature(Feature):
    """The gem sidekiq-status shows in Ruby how far a job has got."""

    uses = ("tracking",)
    options_of_code = "RubyStatusOptions"

    def marks_class(self, options: Mapping[str, Any]) -> bool:
        return bool(options.get("sidekiq_status"))

    def recovering(self, registry: Registry, config: Config, wall: Callable[[], float]) -> Recovering:
        from goworkers_py.features.ruby_status.end import BuriedStatuses

        return BuriedStatuses(registry)

    def in_process(self, process: WorkerProcess) -> InProcess:
        from goworkers_py.features.ruby_status.run import ShownRuns
        from goworkers_py.features.tracking.run import TrackedRuns

        tracked = process.parts["tracking"]
        assert isinstance(tracked, TrackedRuns)
        return ShownRuns(tracked)

    # --- brokers

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.ruby_status.memory import StatusesInMemory

        return lambda state: StatusesInMemory()

    def redis(self) -> RedisPart:
        from goworkers_py.features.ruby_status.redis_part import part

        return part()

    # --- people

    def access(self) -> FeatureAccess:
        from goworkers_py.features.ruby_status.access import ACCESS

        return ACCESS


FEATURE = RubyStatusFeature()
