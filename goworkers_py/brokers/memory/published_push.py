"""A push on its way into the state of a memory broker."""

from __future__ import annotations

from goworkers_py.brokers.contracts.transport import Published, PublishResult, Push
from goworkers_py.core.values import dataclass

PUSHED = Published.PUSHED


@dataclass(slots=True)
class PublishedPush:
    """A push. The number stays when it is sorted in again."""

    number: int
    push: Push
    result: PublishResult | None = None  # set when the push is done
    at: float | None = None  # until then it waits, where a tie has decided so
    group: str = ""  # the name of the group that it joins: a tie has decided so
    insists: bool = False  # a job pushes it at its end: a tie does not forbid it if the push can go without that tie
