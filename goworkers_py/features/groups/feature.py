"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click


class GroupsFeature(Feature):
    """Jobs wait until one job runs in the place of all of them."""

    name = "groups"
    commands = ("groups",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.groups.commands import groups

        return groups


FEATURE = GroupsFeature()
