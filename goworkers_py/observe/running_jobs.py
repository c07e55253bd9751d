"""The running jobs as `/stats` shows them: a limited number per queue, with short payloads."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from typing import TypedDict

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.wire.process_record import shortened

# Per queue. A child of `processes = N` sends them to its parent every second.
MOST_SHOWN = 200
LONGEST_SHOWN = 2_000  # bytes


class RunningJob(TypedDict):
    message: str  # JSON: the payload, or a few fields of a long one
    started_at: int  # epoch seconds


def shown(deliveries: Iterable[Delivery]) -> list[RunningJob]:
    """May be called by any thread."""
    texts = [(delivery, _text(delivery)) for delivery in deliveries]
    return oldest([[RunningJob(message=text, started_at=int(delivery.begun_at)) for delivery, text in texts if text]])


def oldest(several: Iterable[Iterable[RunningJob]]) -> list[RunningJob]:
    return heapq.nsmallest(MOST_SHOWN, itertools.chain.from_iterable(several), key=lambda job: job["started_at"])


def _text(delivery: Delivery) -> str:
    """Empty for a payload that is no job. Kept in `Delivery.shown`, because a long payload takes long to read."""
    if delivery.shown is None:
        try:
            message = delivery.message  # read once: its worker's thread sets it to None
            text = shortened(delivery.payload if message is None else message.raw, LONGEST_SHOWN).decode()
        except UnreadablePayload:
            text = ""
        delivery.shown = text if len(text) <= LONGEST_SHOWN else ""
    return delivery.shown
