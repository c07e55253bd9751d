"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.web.site.table import FeaturePages


class Unique(Feature):
    """A lock keeps a second job with the same arguments out."""

    name = "unique"
    commands = ("locks",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.unique.commands import locks

        return locks

    def checks(self, inspector: Inspector) -> Checks:
        from goworkers_py.features.unique.findings import lock_findings

        return {"locks": lambda: lock_findings(inspector)}

    def pages(self) -> FeaturePages:
        from goworkers_py.features.unique.views import PAGES

        return PAGES
