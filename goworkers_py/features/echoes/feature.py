"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class EchoesFeature(Feature):
    """When a job of Ruby has ended here, Ruby is told by a copy of it."""

    name = "echoes"


FEATURE = EchoesFeature()
