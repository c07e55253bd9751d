"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class Tracking(Feature):
    """A record of a job tells its state, its progress and its result."""

    name = "tracking"
