"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class PlainListsFeature(Feature):
    """Other programs push bodies without class, jid or options."""

    name = "plain_lists"


FEATURE = PlainListsFeature()
