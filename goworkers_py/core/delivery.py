"""A fetched job on its way through this process."""

from __future__ import annotations

import enum
from typing import Any


class Stage(enum.Enum):
    FETCHED = enum.auto()  # lies in the local buffer, or in the hand of a worker that has not begun it
    BEGUN = enum.auto()  # set by its worker, which runs it
    KEPT = enum.auto()  # set by its worker: has run and was not acknowledged, is held until this process stops
    ENDED = enum.auto()  # set by whoever gives its outcome to the settler: its worker, or a stop that gives it back


# By themselves: the way of every job looks at them.
FETCHED, BEGUN, KEPT, ENDED = Stage


class Delivery:
    """One fetch of a job: its exact bytes, and what the broker needs to find this very fetch again."""

    # Of the class as long as nothing has been said: one is made for every job.
    stage = FETCHED
    begun_at = 0.0  # epoch seconds by the server's clock; set by the worker that begins it
    receipt: Any = None  # the broker's own: nobody else looks into it
    shown: str | None = None  # its payload as `running` shows it; set by whichever thread looks first

    def __init__(self, payload: bytes, queue: str, identity: str, receipt: Any = None) -> None:
        self.payload = payload
        self.queue = queue
        self.identity = identity  # of this process, when it fetched the job
        if receipt is not None:
            self.receipt = receipt
