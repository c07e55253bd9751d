"""Counts the jobs of a place by class and error."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import field

import simplejson

from goworkers_py.brokers.contracts.admin import PlacedJobs
from goworkers_py.core import machine
from goworkers_py.core.values import dataclass
from goworkers_py.wire.message import Message, epoch
from goworkers_py.wire.stored_job import StoredJob

# Payloads come from any program, so the number of classes and errors has no limit: beyond MOST_KINDS, the jobs of all
# further kinds are counted together as OTHERS.
MOST_KINDS = 1_000
LONGEST_TEXT = 300
# A sample is read from so many parts of a place: neighbours have often failed for the same reason.
PARTS = 100
MOST_BYTES = 50_000_000  # of a sample: so many the server reads for it, although it sends less
OTHERS, UNREADABLE, NAMELESS = "(others)", "(unreadable)", "(none)"
HOURS, HOUR_S = 24, 3_600


@dataclass(slots=True)
class PlaceKind:
    """The jobs of one class that failed with one class of error."""

    job_class: str
    error_class: str
    error_message: str = ""  # of the newest failure
    count: int = 0
    # The oldest and the newest of the jobs' last failures, in epoch seconds; None when no job says when it failed.
    oldest: float | None = None
    newest: float | None = None
    # The last failures of the last day that were looked at, by hour, the last hour at the end.
    by_hour: list[int] = field(default_factory=lambda: [0] * HOURS, compare=False)

    def add(self, at: float | None, error_message: str, now: float) -> None:
        self.count += 1
        if at is None:
            return
        if 0 <= (hours := (now - at) // HOUR_S) < HOURS:
            self.by_hour[HOURS - 1 - int(hours)] += 1
        self.oldest = at if self.oldest is None else min(self.oldest, at)
        if self.newest is None or at >= self.newest:
            self.newest, self.error_message = at, error_message

    @property
    def as_json(self) -> str:
        fields = dataclasses.asdict(self)
        del fields["by_hour"]
        return simplejson.dumps({"class": fields.pop("job_class"), **fields})


@dataclass(frozen=True, slots=True)
class Sample:
    """Counts that were estimated from some of the jobs."""

    total: int  # jobs of the place
    looked_at: int
    kinds: list[PlaceKind]  # each `count` is an estimate, unless all were looked at


class Summary:
    """Counts any number of jobs in bounded memory."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], PlaceKind] = {}

    def add(self, jobs: Iterable[StoredJob]) -> None:
        now = machine.time()
        for job in jobs:
            message = job.message
            if message is None:
                kind = self._kind(UNREADABLE, "")
            else:
                kind = self._kind(message.job_class[:LONGEST_TEXT] or NAMELESS, _text(message, "error_class"))
            kind.add(_failed_at(job), _text(message, "error_message"), now)

    def _kind(self, job_class: str, error_class: str) -> PlaceKind:
        name = job_class, error_class
        if name not in self._kinds and len(self._kinds) >= MOST_KINDS:
            name = OTHERS, ""
        return self._kinds.setdefault(name, PlaceKind(*name))

    def kinds(self) -> list[PlaceKind]:
        """The most frequent first."""
        return sorted(self._kinds.values(), key=lambda kind: (-kind.count, kind.job_class, kind.error_class))


def _text(message: Message | None, field: str) -> str:
    value = message.get(field) if message else None
    return value[:LONGEST_TEXT] if isinstance(value, str) else ""


def _failed_at(job: StoredJob) -> float | None:
    """When the job failed last: from its payload, else its time in the set. For a dead job that is when it died."""
    message = job.message
    of_payload = message and (epoch(message.get("retried_at")) or epoch(message.get("failed_at")))
    at = of_payload or job.at
    return at if at is not None and math.isfinite(at) else None


def sample(jobs: PlacedJobs, size: int) -> Sample:
    total, summary, looked_at, seen = jobs.count(), Summary(), 0, 0
    part = max(1, size // PARTS)
    starts = [*range(0, total, part)] if total <= size else machine.random.sample(range(total - part), PARTS)
    for start in starts:
        found = jobs.first(part, start)
        looked_at += len(found)
        summary.add(found)
        seen += sum(job.size for job in found)
        if seen >= MOST_BYTES:
            break
    kinds = summary.kinds()
    for kind in kinds:
        kind.count = round(kind.count * max(total, looked_at) / looked_at)
    return Sample(total, looked_at, kinds)
