"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class IterationFeature(Feature):
    """A generator function goes on where an earlier run has stopped."""

    name = "iteration"


FEATURE = IterationFeature()
