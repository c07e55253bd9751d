"""What features add to a message. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

from goworkers_py.features.expiry.message import ExpiringMessage


class FeatureMessage(ExpiringMessage):
    __slots__ = ()
