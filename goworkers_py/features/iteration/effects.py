"""The effect of the end of a run on the cursor of the job."""

from __future__ import annotations

from typing import ClassVar

from goworkers_py.core.values import dataclass
from goworkers_py.features.iteration.cursor import Cursor


@dataclass(frozen=True, slots=True)
class StoreCursor:
    """Stores how far an iterable job has got, for its next run; at its end (`has_ended`) forgets it. It does nothing
    when a later run has begun, or a later job with the same jid has its cursor there. A cursor that cannot be written
    does not keep the job from being settled. Like NoteState, this effect may happen again."""

    jid: str
    cursor: Cursor
    has_ended: bool = False
    kind: ClassVar[str] = "cursor"
    repeatable: ClassVar[bool] = True

    @property
    def size(self) -> int:
        return len(self.cursor.value)
