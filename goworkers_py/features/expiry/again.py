"""The expiry of a job that people push again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goworkers_py.features.expiry.payload import EXPIRES_AT, EXPIRY
from goworkers_py.features.parts import Copies
from goworkers_py.wire.message import Message


def as_much_time(first: Message, now: float) -> Mapping[str, Any]:
    """The new job gets as much time as the first one had."""
    expires_at, began = first.expires_at, first.created_at
    if expires_at is None:
        return {}
    name = EXPIRES_AT if EXPIRES_AT in first else EXPIRY
    return {name: now + max(0.0, expires_at - began) if began is not None else expires_at}


COPIES = Copies(changes=as_much_time)
