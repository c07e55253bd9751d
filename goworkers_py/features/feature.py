"""The entry of a feature: what a feature may give to the engine.

Each part is a method that imports inside and returns the part, so that a part is loaded when it is first needed, and
type checkers see it. A feature overrides the methods of the parts that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.core.line_owner import LineOwner
    from goworkers_py.web.site.table import FeaturePages


class Feature:
    """The base class of every entry. Its methods mean: the feature has no such part."""

    name: ClassVar[str]  # of its folder
    uses: ClassVar[tuple[str, ...]] = ()  # other features whose modules it imports

    # --- people
    commands: ClassVar[tuple[str, ...]] = ()  # of `pyworkers`

    def command(self, name: str) -> click.Command:
        """One of `commands`."""
        raise NotImplementedError

    def line_owner(self, line: str) -> LineOwner | None:
        """The owner of a line in which this feature parks jobs; None for any other line."""
        return None

    def checks(self, inspector: Inspector) -> Checks:
        """Checks of the doctor, by the names by which people skip them."""
        return {}

    def pages(self) -> FeaturePages | None:
        """Views and actions of the web site, and the facts on the page of a job."""
        return None
