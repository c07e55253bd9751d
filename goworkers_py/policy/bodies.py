"""Bare bodies of other programs, which are no payloads, as the jobs that they become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.levels import base_of
from goworkers_py.features import FEATURES
from goworkers_py.features.parts import Queues
from goworkers_py.wire.message import Message, Timestamps
from goworkers_py.wire.properties import Properties


@cache
def _queues() -> Sequence[Queues]:
    return [feature.queues() for feature in FEATURES]


def job_of_body(body: bytes, queue: str, at: float, properties: Properties | None = None) -> bytes:
    """The payload of the job. `at` is the time of the fetch, as payloads have it."""
    found = (queues.job_of_body(body, queue, at, properties) for queues in _queues())
    return next(filter(None, found))


def reader_of_bodies(level: str, wall: Callable[[], float], timestamps: Timestamps) -> Callable[[Delivery], Message]:
    """Reads the deliveries of a level that holds bare bodies. All workers of the level share it."""
    queue = base_of(level)

    def read(delivery: Delivery) -> Message:
        return Message(job_of_body(delivery.payload, queue, timestamps.write(wall()), delivery.properties), queue)

    return read
