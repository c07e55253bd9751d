"""The effect of a move or an end of a job on what the gem sidekiq-status shows of it, see `core.effect`."""

from __future__ import annotations

from typing import ClassVar

from goworkers_py.core.values import dataclass
from goworkers_py.features.ruby_status.status import StatusWord


@dataclass(frozen=True, slots=True)
class ShowStatus:
    """Writes the state of a job where the gem looks for it. A broker that no Ruby program can reach does nothing. Like
    NoteState, this effect may happen again, and may fail."""

    jid: str
    status: StatusWord | None  # None: as before, only the progress is new
    progress: str = ""  # as in a record, see `features.tracking.record`; empty: the job has told none
    kind: ClassVar[str] = "status"
    repeatable: ClassVar[bool] = True

    @property
    def size(self) -> int:
        return len(self.progress)
