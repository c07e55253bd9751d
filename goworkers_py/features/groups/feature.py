"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature, Follow

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.features.groups.contract import Groups
    from goworkers_py.web.gauges import OfFleet, OfProcesses
    from goworkers_py.web.site.table import FeaturePages


class GroupsFeature(Feature):
    """Jobs wait until one job runs in the place of all of them."""

    name = "groups"
    contract, kept = "Groups", "groups of jobs"
    verbs = "GroupVerbs"

    gathered_by = "group"

    def check_push(self, said: Mapping[str, Any], kwargs: Mapping[str, Any]) -> None:
        from goworkers_py.features.groups.push import grouping_of

        grouping_of(said, kwargs)

    def part(self, family: str) -> Callable[[Any], Groups] | None:
        if family == "redis":
            from goworkers_py.features.groups.redis import RedisGroups

            return lambda broker: RedisGroups(broker.connections, broker.keys)
        if family == "memory":
            from goworkers_py.features.groups.memory import MemoryGroups

            return lambda broker: MemoryGroups(broker.state)
        return None

    def followers(self) -> Mapping[str, Follow]:
        from goworkers_py.features.groups.end import of_set
        from goworkers_py.wire.needs import GROUP

        return {GROUP: of_set}

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.groups.memory import GroupTable

        return GroupTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.groups.redis_part import part

        return part()

    # --- people

    commands = ("groups",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.groups.commands import groups

        return groups

    def access(self) -> FeatureAccess:
        from goworkers_py.features.groups.access import ACCESS

        return ACCESS

    def figures(self, inspector: Inspector) -> Mapping[str, int]:
        from goworkers_py.features.groups.metrics import figures

        return figures(inspector)

    def gauges(self) -> Collection[OfProcesses | OfFleet]:
        from goworkers_py.features.groups.metrics import GAUGES

        return GAUGES

    def pages(self) -> FeaturePages:
        from goworkers_py.features.groups.views import PAGES

        return PAGES


FEATURE = GroupsFeature()
