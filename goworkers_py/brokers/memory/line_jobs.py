"""Jobs in lines, and pushes in outboxes."""

from __future__ import annotations

from goworkers_py.core.effect import Push
from goworkers_py.core.values import NamedTuple


class ParkedJob(NamedTuple):
    number: int
    at: float  # when it was parked
    queue: str
    payload: bytes


class PostedJob(NamedTuple):
    number: int
    at: float  # when it was posted
    push: Push
