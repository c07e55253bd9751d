"""The figures of the fleet that features have. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

from goworkers_py.features.batches.batch import BatchFigures
from goworkers_py.features.chains.chain import ChainFigures
from goworkers_py.features.groups.group import GroupFigures


class FeatureFigures(ChainFigures, BatchFigures, GroupFigures):
    pass
