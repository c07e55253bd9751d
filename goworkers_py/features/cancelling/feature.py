"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class CancellingFeature(Feature):
    """A job that people cancel does not begin, or is interrupted."""

    name = "cancelling"


FEATURE = CancellingFeature()
