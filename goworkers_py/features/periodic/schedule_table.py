"""The schedules of periodic jobs in the state of a memory broker."""

from __future__ import annotations

from collections import deque
from dataclasses import field

from goworkers_py.core.values import dataclass
from goworkers_py.features.periodic.contract import FORGOTTEN_S, MOST_FIRINGS, STALE_S
from goworkers_py.features.periodic.schedule import HistoryEntry, Release, Schedule


@dataclass(slots=True)
class KeptSchedule:
    """Used under the lock of the state."""

    schedule: Schedule
    order: str
    anchor: float
    number: int = 1
    last: float = 0.0
    paused: bool = False
    asked: int = 0
    override: bytes = b""
    counts: dict[str, int] = field(default_factory=dict)
    # By the digest of a text: when it was registered first, and last.
    first: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)
    history: deque[HistoryEntry] = field(default_factory=lambda: deque(maxlen=MOST_FIRINGS))

    @property
    def since(self) -> float:
        return max(self.last, self.anchor)

    def see(self, digest: str, now: float) -> None:
        if now - self.seen.get(digest, 0.0) > FORGOTTEN_S:
            self.first[digest] = now
        self.seen[digest] = now

    def comes(self, digest: str, order: str, now: float) -> bool:
        """Whether the text with this digest comes into force instead of the one that is."""
        if digest == self.schedule.digest:
            return False
        stale = now - self.seen[self.schedule.digest] > STALE_S
        return self.order != order or stale or self.first[digest] > self.first[self.schedule.digest]


class ScheduleTable:
    """Used under the lock of the state."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], KeptSchedule] = {}  # by source and name
        self.releases: dict[str, Release] = {}  # the newest of each source
