"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class ExpiryFeature(Feature):
    """A job whose time has passed does not begin."""

    name = "expiry"


FEATURE = ExpiryFeature()
