"""Reads the bodies of other programs as jobs, see `features.plain_lists.payload`."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.core.delivery import Delivery
from goworkers_py.core.levels import base_of
from goworkers_py.features.plain_lists.payload import wrapped
from goworkers_py.wire.message import Message, Timestamps


class PlainReader:
    """Shared by all workers of a list."""

    def __init__(self, wall: Callable[[], float], timestamps: Timestamps) -> None:
        self._wall = wall
        self._timestamps = timestamps

    def __call__(self, delivery: Delivery) -> Message:
        name = base_of(delivery.queue)
        at = self._timestamps.write(self._wall())
        return Message(wrapped(delivery.payload, name, at, delivery.properties), name)
