"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.doctor import OurWork
    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.config.option_rows import FeatureSection
    from goworkers_py.web.site.table import FeaturePages


class PeriodicFeature(Feature):
    """Jobs are pushed at the times of a schedule, once in the whole fleet."""

    name = "periodic"
    commands = ("periodic",)

    def sections(self) -> Collection[type[FeatureSection]]:
        from goworkers_py.features.periodic.options import PeriodicConfig

        return (PeriodicConfig,)

    def checks(self, inspector: Inspector, work: OurWork | None) -> Checks:
        from goworkers_py.features.periodic.findings import periodic_findings

        return {"periodic": lambda: periodic_findings(inspector, work)}

    def pages(self) -> FeaturePages:
        from goworkers_py.features.periodic.views import PAGES

        return PAGES

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.periodic.commands import periodic

        return periodic


FEATURE = PeriodicFeature()
