"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.features.groups.contract import Groups
    from goworkers_py.web.gauges import OfFleet, OfProcesses
    from goworkers_py.web.site.table import FeaturePages


class GroupsFeature(Feature):
    """Jobs wait until one job runs in the place of all of them."""

    name = "groups"
    contract, kept = "Groups", "groups of jobs"
    verbs = "GroupVerbs"

    def part(self, family: str) -> Callable[[Any], Groups] | None:
        if family == "redis":
            from goworkers_py.features.groups.redis import RedisGroups

            return lambda broker: RedisGroups(broker.connections, broker.keys)
        if family == "memory":
            from goworkers_py.features.groups.memory import MemoryGroups

            return lambda broker: MemoryGroups(broker.state)
        return None

    # --- people

    commands = ("groups",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.groups.commands import groups

        return groups

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
