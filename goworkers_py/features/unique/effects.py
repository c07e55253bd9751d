"""The effects of the end or the move of a unique job on its lock."""

from __future__ import annotations

from typing import ClassVar

from goworkers_py.core.values import dataclass


@dataclass(frozen=True, slots=True)
class FreeLock:
    """Ends the lock, if this job holds it. Like NoteState, this effect may happen again, and may fail: a lock that
    nobody frees ends with its time."""

    jid: str
    name: str
    kind: ClassVar[str] = "lock"
    size: ClassVar[int] = 0
    repeatable: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class KeepLock:
    """Lets the lock last for at least `for_s` seconds from the time on at which the job goes on, if this job holds it:
    from now on, or from `due` on. Like FreeLock, this effect may happen again, and may fail."""

    jid: str
    name: str
    for_s: int
    due: float | None = None
    kind: ClassVar[str] = "lock"
    size: ClassVar[int] = 0
    repeatable: ClassVar[bool] = True
