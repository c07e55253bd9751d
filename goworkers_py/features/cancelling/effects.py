"""The effect of the end of a job on its tombstone."""

from __future__ import annotations

from typing import ClassVar

from goworkers_py.core.values import dataclass


@dataclass(frozen=True, slots=True)
class MeetTombstone:
    """Removes the tombstone of a job, and tells who has cancelled it how the job has ended. It does not keep the job
    from being settled."""

    jid: str
    state: str  # "cancelled", or the state into which the job went on
    kind: ClassVar[str] = "cancel"
    size: ClassVar[int] = 0
    repeatable: ClassVar[bool] = True
