"""A fetched job in this process, and how far it has got."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


class Stage(enum.Enum):
    FETCHED = enum.auto()  # in the local buffer, or in the hand of a worker that has not begun it
    BEGUN = enum.auto()  # set by its worker, which runs the job
    KEPT = enum.auto()  # set by its worker: not acknowledged after its run, in progress until this process stops
    ENDED = enum.auto()  # set by the thread that gives the settler its outcome: its worker's, or one that gives it back


# Module globals are quicker to read than attributes of Stage, and every job reads them.
FETCHED, BEGUN, KEPT, ENDED = Stage


class Delivery:
    """One fetch of a job: its exact bytes, and the receipt by which the broker finds this fetch again."""

    # Defaults are attributes of the class: a Delivery is made for every job, and `__init__` does not set them.
    stage = FETCHED
    begun_at = 0.0  # epoch seconds by the server's clock; set by the worker that begins the job
    receipt: Any = None  # only the broker reads it
    properties: Any = None  # set by the broker: what the message of a bare body says beside it, for its reader
    message: Any = None  # the parsed payload; set by the worker that begins the job
    # Features keep values of the run here, by their names. The worker that begins the job replaces it as a whole.
    of_features: Mapping[str, Any] = MappingProxyType({})
    # The name of its clues, for a job that came again and again, see `contracts.death_clues`; set by the broker.
    clue_name = ""
    # By which a queue service knows the message again when it delivers it once more; set by the broker, empty where it
    # has none.
    message_id = ""
    again = False  # it was delivered before, and not acknowledged; set by the broker
    shown: str | None = None  # the payload as `/stats` shows it; set by the first thread that asks, see `running_jobs`

    def __init__(self, payload: bytes, queue: str, identity: str, receipt: Any = None) -> None:
        self.payload = payload
        self.queue = queue
        self.identity = identity  # of this process at the fetch
        if receipt is not None:
            self.receipt = receipt
