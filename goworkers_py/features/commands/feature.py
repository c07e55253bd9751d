"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click


class CommandsFeature(Feature):
    """Processes answer commands of people, and give reports."""

    name = "commands"
    commands = ("reports",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.commands.commands import reports

        return reports


FEATURE = CommandsFeature()
