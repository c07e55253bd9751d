"""The effect of the end of a job on its tombstone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from goworkers_py.core.job_state import StateWord
from goworkers_py.core.values import dataclass
from goworkers_py.features.parts import Moves
from goworkers_py.wire.payload import jid_of


@dataclass(frozen=True, slots=True)
class MeetTombstone:
    """Removes the tombstone of a job, and tells who has cancelled it how the job has ended. It does not keep the job
    from being settled."""

    jid: str
    state: str  # "cancelled", or the state into which the job went on
    kind: ClassVar[str] = "cancel"
    size: ClassVar[int] = 0
    repeatable: ClassVar[bool] = True


def _ended_without_run(fields: Mapping[str, Any], state: StateWord, reason: str) -> Iterator[MeetTombstone]:
    if state == "cancelled" and (jid := jid_of(fields)):
        yield MeetTombstone(jid, "cancelled")


MOVES = Moves(ended_without_run=_ended_without_run)
