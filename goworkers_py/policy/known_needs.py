"""The needs that this release knows: those of the engine, and those of the features. See `wire.needs`."""

from __future__ import annotations

from goworkers_py.features import FEATURES
from goworkers_py.wire.needs import OF_ENGINE

# Each with the first release that knows it.
SINCE = {**OF_ENGINE, **{need: since for feature in FEATURES for need, since in feature.needs.items()}}
SPEAKS: frozenset[str] = frozenset(SINCE)
