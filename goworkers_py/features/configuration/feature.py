"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class ConfigurationFeature(Feature):
    """Configurations are stored in the broker, with versions, and processes take them."""

    name = "configuration"


FEATURE = ConfigurationFeature()
