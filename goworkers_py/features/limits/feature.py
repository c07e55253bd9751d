"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.core.line_owner import LineOwner
from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.web.site.table import FeaturePages


class Limits(Feature):
    """How many jobs of the whole fleet run at once, and how many begin in a time."""

    name = "limits"
    commands = ("limits",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.limits.commands import limits

        return limits

    def line_owner(self, line: str) -> LineOwner | None:
        from goworkers_py.features.limits.limit import slot_of_line

        if (slot := slot_of_line(line)) is None:
            return None
        return LineOwner(f"limit {slot.limit}", f"pyworkers limits show {slot.limit}")

    def checks(self, inspector: Inspector) -> Checks:
        from goworkers_py.features.limits.findings import limit_findings

        return {"limits": lambda: limit_findings(inspector)}

    def pages(self) -> FeaturePages:
        from goworkers_py.features.limits.views import PAGES

        return PAGES
