"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click


class StandbyFeature(Feature):
    """One process of several works, and the others are ready to take over."""

    name = "standby"
    commands = ("leader",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.standby.commands import leader

        return leader


FEATURE = StandbyFeature()
