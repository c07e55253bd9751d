"""What features add to a message. `make reference` writes this file out of the entries in `features`."""

from __future__ import annotations

from goworkers_py.features.batches.message import MessageOfBatch
from goworkers_py.features.expiry.message import ExpiringMessage
from goworkers_py.features.plain_lists.message import BodyMessage


class FeatureMessage(MessageOfBatch, ExpiringMessage, BodyMessage):
    __slots__ = ()
