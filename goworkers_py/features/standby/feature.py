"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.features.standby.contract import Leadership
    from goworkers_py.runtime.daemon import AnyLauncher, PartitionWork
    from goworkers_py.web.gauges import OfFleet, OfProcesses
    from goworkers_py.web.site.table import FeaturePages


class StandbyFeature(Feature):
    """One process of several works, and the others are ready to take over."""

    name = "standby"
    contract, kept = "Leadership", "elections of a leader"
    # A queue service checks no epoch.
    kept_beside = False
    verbs = "ElectionVerbs"
    commands = ("leader",)

    def launcher(self, work: PartitionWork) -> AnyLauncher | None:
        if not work.plan.config.standby or work.broker.one_consumer:
            return None
        from goworkers_py.features.standby.standby import Standby

        return Standby(work)

    # --- brokers

    def part(self, family: str) -> Callable[[Any], Leadership] | None:
        if family == "redis":
            from goworkers_py.features.standby.redis import RedisLeadership, patience_s

            return lambda broker: RedisLeadership(
                broker.unfenced(patience_s(broker.config)), broker.keys, broker.listener
            )
        if family == "memory":
            from goworkers_py.features.standby.memory import MemoryLeadership

            return lambda broker: MemoryLeadership(broker.state)
        return None

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.standby.memory import ElectionTable

        return ElectionTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.standby.redis_part import part

        return part()

    # --- people

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.standby.commands import leader

        return leader

    def access(self) -> FeatureAccess:
        from goworkers_py.features.standby.access import ACCESS

        return ACCESS

    def gauges(self) -> Collection[OfProcesses | OfFleet]:
        from goworkers_py.features.standby.metrics import GAUGES

        return GAUGES

    def pages(self) -> FeaturePages:
        from goworkers_py.features.standby.views import PAGES

        return PAGES


FEATURE = StandbyFeature()
