"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click


class PeriodicFeature(Feature):
    """Jobs are pushed at the times of a schedule, once in the whole fleet."""

    name = "periodic"
    commands = ("periodic",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.periodic.commands import periodic

        return periodic


FEATURE = PeriodicFeature()
