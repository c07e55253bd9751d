"""The entry of this feature, see `features.feature`."""

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

    name = "ruby_status"
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
