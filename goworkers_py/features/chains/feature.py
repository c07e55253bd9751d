"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click


class ChainsFeature(Feature):
    """Each job is pushed when the one before it has ended well."""

    name = "chains"
    commands = ("chains",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.chains.commands import chains

        return chains


FEATURE = ChainsFeature()
