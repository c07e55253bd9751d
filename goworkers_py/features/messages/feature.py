"""The entry of this feature, see `features.feature`."""

from __future__ import annotations

from goworkers_py.features.feature import Feature


class MessagesFeature(Feature):
    """A class with fields, a channel and the code that runs for each message."""

    name = "messages"


FEATURE = MessagesFeature()
