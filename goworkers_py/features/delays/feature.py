"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class DelaysFeature(Feature):
    """Tasks are due at a time, in any program, and a persistence keeps them."""

    name = "delays"


FEATURE = DelaysFeature()
