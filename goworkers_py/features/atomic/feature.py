"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class AtomicFeature(Feature):
    """The pushes of a job happen in the step that ends it."""

    name = "atomic"


FEATURE = AtomicFeature()
