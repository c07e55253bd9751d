"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click


class BatchesFeature(Feature):
    """Jobs whose ends are counted together, with callbacks at the end."""

    name = "batches"
    commands = ("batches",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.batches.commands import batches

        return batches


FEATURE = BatchesFeature()
