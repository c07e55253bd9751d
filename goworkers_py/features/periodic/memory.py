"""The schedules of periodic jobs in the state of a memory broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import field

from goworkers_py.brokers.contracts.transport import Published, PublishResult
from goworkers_py.brokers.memory.parts import MemoryPart
from goworkers_py.brokers.memory.state import State
from goworkers_py.core.holder import Conflict, Holder
from goworkers_py.core.values import dataclass
from goworkers_py.features.periodic.contract import BACK_S, FORGOTTEN_S, MOST_FIRINGS, STALE_S, Periodic
from goworkers_py.features.periodic.schedule import (
    Fired,
    Firing,
    FiringResult,
    ForeignSchedule,
    HistoryEntry,
    Registered,
    Release,
    Schedule,
    ScheduleRecord,
    ScheduleState,
    Word,
)


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


class ScheduleTable(MemoryPart):
    """Used under the lock of the state."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], KeptSchedule] = {}  # by source and name
        self.releases: dict[str, Release] = {}  # the newest of each source


class MemoryPeriodic(Periodic):
    def __init__(self, state: State) -> None:
        self._state = state
        self._table = state.part(ScheduleTable)

    def register(self, release: Release, schedules: Sequence[Schedule]) -> Registered:
        with self._state.lock:
            now, known = self._state.clock(), self._table.releases.get(release.source)
            if known is not None and release.order.encode() < known.order.encode():
                return Registered(now, newer=known.generation)
            self._table.releases[release.source] = release
            return Registered(now, tuple(self._register(release, schedule, now) for schedule in schedules))

    def _register(self, release: Release, schedule: Schedule, now: float) -> ScheduleState:
        key, digest = (release.source, schedule.name), schedule.digest
        kept = self._table.kept.get(key)
        if kept is None:
            kept = self._table.kept[key] = KeptSchedule(schedule, release.order, now)
            kept.see(digest, now)
        else:
            kept.see(digest, now)
            if kept.comes(digest, release.order, now):
                kept.anchor = now if schedule.rule != kept.schedule.rule else kept.anchor
                kept.schedule = schedule
                kept.number += 1
        if kept.since > now + BACK_S:
            kept.last, kept.anchor, kept.number = now, now, kept.number + 1
        in_force = kept.schedule.digest == digest
        if in_force:
            kept.order = release.order
        return ScheduleState(kept.number, in_force, kept.since, kept.paused, kept.asked, kept.override)

    # --- firing

    def fire(self, release: Release, firing: Firing) -> FiringResult:
        with self._state.lock:
            now, kept = self._state.clock(), self._table.kept.get((release.source, firing.name))
            newest = self._table.releases.get(release.source)
            if kept is None or newest is None or newest.order != release.order or kept.number != firing.number:
                return FiringResult(Fired.CHANGED)
            if kept.paused and not firing.asked:
                return FiringResult(Fired.CHANGED)
            if firing.slot > now:
                return FiringResult(Fired.EARLY)
            if (holder := self._holder(firing)) is not None:
                return FiringResult(Fired.CHANGED, holder=holder)
            return self._settle(kept, firing, now)

    def _holder(self, firing: Firing) -> Holder | None:
        """The job that holds the lock of this firing, which does not skip then."""
        return None if firing.push is None or firing.skips else self._state.holder(firing.push)

    def _settle(self, kept: KeptSchedule, firing: Firing, now: float) -> FiringResult:
        word, jid = firing.word, firing.jid
        if firing.push is not None:
            [result] = self._state.publish_within([firing.push])
            word, jid = _word_and_jid(result, word, jid)
        kept.number += 1
        if firing.asked:
            kept.asked = max(0, kept.asked - 1)
        else:
            kept.last = firing.slot
        count = "fired" if word in ("fired", "asked") else "missed" if word == "missed" else "skipped"
        kept.counts[count] = kept.counts.get(count, 0) + 1
        if firing.push is not None and word in ("fired", "asked"):
            self._state.note_pushed(firing.push)
        kept.history.appendleft(HistoryEntry(word, firing.slot, now, jid, firing.missed_from))
        return FiringResult(Fired.DONE, word)

    # --- for people

    def records(self) -> list[ScheduleRecord]:
        with self._state.lock:
            return [self._record(source, kept) for (source, _), kept in sorted(self._table.kept.items())]

    def _record(self, source: str, kept: KeptSchedule) -> ScheduleRecord:
        newest = self._table.releases[source]
        return ScheduleRecord(
            source,
            kept.schedule.name,
            kept.schedule.text,
            newest.generation,
            newest.order != kept.order,
            kept.since,
            kept.seen[kept.schedule.digest],
            kept.paused,
            kept.asked,
            kept.override,
            kept.counts.get("fired", 0),
            kept.counts.get("skipped", 0),
            kept.history[0] if kept.history else None,
        )

    def history(self, source: str, name: str) -> list[HistoryEntry]:
        with self._state.lock:
            kept = self._table.kept.get((source, name))
            return list(kept.history) if kept is not None else []

    def pause(self, source: str, name: str) -> bool:
        with self._state.lock:
            kept = self._table.kept.get((source, name))
            if kept is None or kept.paused:
                return False
            kept.paused, kept.number = True, kept.number + 1
            return True

    def resume(self, source: str, name: str) -> bool:
        with self._state.lock:
            kept = self._table.kept.get((source, name))
            if kept is None or not kept.paused:
                return False
            kept.paused, kept.number, kept.anchor = False, kept.number + 1, self._state.clock()
            return True

    def override(self, source: str, name: str, text: bytes) -> bool:
        with self._state.lock:
            kept = self._table.kept.get((source, name))
            if kept is None:
                return False
            kept.override, kept.number, kept.anchor = text, kept.number + 1, self._state.clock()
            return True

    def ask(self, source: str, name: str) -> bool:
        with self._state.lock:
            kept = self._table.kept.get((source, name))
            if kept is None:
                return False
            kept.asked, kept.number = kept.asked + 1, kept.number + 1
            return True

    def forget(self, source: str, name: str) -> bool:
        with self._state.lock:
            return self._table.kept.pop((source, name), None) is not None

    def foreign(self) -> list[ForeignSchedule]:
        return []


def _word_and_jid(result: PublishResult, word: Word, jid: str) -> tuple[Word, str]:
    if isinstance(result, Conflict) and result.how != "rescheduled":
        return ("replaced" if result.how == "replaced" else "skipped"), result.holder.jid
    return ("skipped" if result is Published.DUPLICATE else word), jid
