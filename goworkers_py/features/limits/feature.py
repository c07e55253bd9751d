"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click


class Limits(Feature):
    """How many jobs of the whole fleet run at once, and how many begin in a time."""

    name = "limits"
    commands = ("limits",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.limits.commands import limits

        return limits
