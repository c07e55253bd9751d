"""A push on its way into the state of a memory broker."""

from __future__ import annotations

from dataclasses import dataclass

from goworkers_py.brokers.contracts.transport import Published, PublishResult, Push
from goworkers_py.core.holder import Conflict

PUSHED = Published.PUSHED


@dataclass(slots=True)
class PublishedPush:
    """A push. The number stays when it is sorted in again."""

    number: int
    push: Push
    result: PublishResult | None = None

    @property
    def happens(self) -> bool:
        return self.result is PUSHED or (isinstance(self.result, Conflict) and self.result.how == "rescheduled")
