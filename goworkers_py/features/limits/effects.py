"""The effects of the end of a run on the places that the job has in limits."""

from __future__ import annotations

from typing import ClassVar

from goworkers_py.core.values import dataclass
from goworkers_py.features.limits.limit import Slot


@dataclass(frozen=True, slots=True)
class LeaveSlot:
    """Ends the place of this job in the slot of a limit, and lets the next job of the line go, if its queue is one of
    `queues`; else the next look does that. Like FreeLock, this effect may happen again, and may fail."""

    jid: str
    slot: Slot
    queues: tuple[str, ...] = ()
    kind: ClassVar[str] = "limit"
    size: ClassVar[int] = 0
    repeatable: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class HoldSlot:
    """The job waits for its next run with its place in the slot of a limit, if it has one. Like FreeLock, this effect
    may happen again, and may fail."""

    jid: str
    slot: Slot
    kind: ClassVar[str] = "limit"
    size: ClassVar[int] = 0
    repeatable: ClassVar[bool] = True
