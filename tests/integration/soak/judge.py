"""Tells from the samples whether anything has grown.

The median of the last quarter of a run is compared with that of the second one: the first quarter is the warm-up, in
which the places that are bounded fill up. The growth that is allowed is the noise of such a median. It does not grow
with the length of a run, so a longer run finds a slower leak: with 1 MB, a run of eight hours finds 0.25 MB an hour,
less than a byte a job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

Sample = dict[str, Any]

MB = 1_000_000
ROLES = ("parent", "child 1", "child 2", "changing", "producer", "redis")

# Allocators return memory late, and the number of objects in flight differs from sample to sample.
MEMORY_MB = 1.0
SERVER_MEMORY_MB = 0.5  # of the data: the server counts it to the byte, but the number of records differs
THREADS = 1.0
# A process keeps as many connections as its threads have ever used at once. And a page or a command of people may be
# under way in more of the samples of a quarter than in another one.
DESCRIPTORS, CONNECTIONS = 2.0, 3.0
# Of a family of keys, or their entries: the jobs come at an even rate, but when they end is not even.
FEW, SHARE = 3.0, 0.05


@dataclass(frozen=True)
class Figure:
    """Something that may grow: `read` takes it out of a sample, `noise` is the growth that is allowed."""

    name: str
    unit: str
    read: Callable[[Sample], float | None]
    noise: float


@dataclass(frozen=True)
class Growth:
    name: str
    unit: str
    before: float  # median of the second quarter
    after: float  # median of the last one
    per_h: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.after - self.before <= self.allowed


@dataclass(frozen=True)
class Record:
    """A run: the lines of its file."""

    head: dict[str, Any]
    samples: list[Sample]
    end: dict[str, Any]  # empty while it runs, or where it was killed

    @property
    def hours(self) -> float:
        return float(self.samples[-1]["s"]) / 3600

    @property
    def loaded(self) -> list[Sample]:
        """Those while jobs were pushed. The last one is taken when all have ended."""
        return [sample for sample in self.samples if sample["s"] <= self.head["seconds"]]


def read_record(path: Path) -> Record:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    samples = [line for line in lines if "processes" in line]
    head = next(line for line in lines if "begin" in line)
    return Record(head, samples, next((line for line in lines if "end" in line), {}))


def figures(samples: Sequence[Sample]) -> Iterator[Figure]:
    for role in ROLES:
        is_server = role == "redis"  # it counts its data itself, and its descriptors are its connections
        if not is_server:
            yield Figure(f"{role}, memory", "MB", _of_process(role, "uss_kb", 1_000), MEMORY_MB)
        yield Figure(f"{role}, threads", "", _of_process(role, "threads"), THREADS)
        noise = CONNECTIONS if is_server else DESCRIPTORS
        yield Figure(f"{role}, descriptors", "", _of_process(role, "descriptors"), noise)
    yield Figure("redis, memory", "MB", lambda sample: sample["redis"]["used_memory"] / MB, SERVER_MEMORY_MB)
    yield Figure("redis, connections", "", lambda sample: sample["redis"]["connected_clients"], CONNECTIONS)
    yield Figure("redis, scripts", "", lambda sample: sample["redis"]["number_of_cached_scripts"], 0.0)
    yield Figure("redis, keys", "", lambda sample: sample["redis"]["dbsize"], _noise(samples, "dbsize"))
    yield Figure("jobs that have not ended", "", lambda sample: sample["open"], _noise(samples, "open"))


def families(samples: Sequence[Sample]) -> Iterator[Figure]:
    """Keys by family: how many, how many without a time to live, how many entries."""
    for kind, what in (("keys", "keys"), ("staying", "keys that stay"), ("entries", "entries")):
        for family in sorted({name for sample in samples for name in sample["redis"][kind]}):
            read = _of_family(kind, family)
            yield Figure(f"{family}, {what}", "", read, max(FEW, SHARE * _middle(samples, read)))


def growth_of(figure: Figure, samples: Sequence[Sample]) -> Growth:
    quarter = max(1, len(samples) // 4)
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    before, after = _middle(second, figure.read), _middle(last, figure.read)
    hours = (last[0]["s"] - second[0]["s"]) / 3600
    return Growth(figure.name, figure.unit, before, after, (after - before) / hours, figure.noise)


def judge(record: Record) -> list[str]:
    """What is wrong: what has grown, which jobs were lost, how the run failed."""
    samples = record.loaded
    if len(samples) < 8:
        return ["too few samples"]
    found = [growth_of(figure, samples) for figure in (*figures(samples), *families(samples))]
    grown = [
        f"{one.name} has grown from {one.before:g} to {one.after:g} {one.unit}, by {one.per_h:.3g} an hour"
        for one in found
        if not one.is_flat
    ]
    unfinished = [] if record.end else ["the run did not come to its end"]
    return [*record.end.get("wrong", ()), *unfinished, *grown]


def _middle(samples: Sequence[Sample], read: Callable[[Sample], float | None]) -> float:
    values = [value for sample in samples if (value := read(sample)) is not None]
    return median(values) if values else 0.0


def _noise(samples: Sequence[Sample], name: str) -> float:
    return max(FEW, SHARE * _middle(samples, lambda sample: sample[name] if name in sample else sample["redis"][name]))


def _of_process(role: str, name: str, divisor: float = 1) -> Callable[[Sample], float | None]:
    """None where the process was between two lives."""

    def read(sample: Sample) -> float | None:
        value = sample["processes"].get(role, {}).get(name)
        return None if value is None else value / divisor

    return read


def _of_family(kind: str, family: str) -> Callable[[Sample], float]:
    return lambda sample: sample["redis"][kind].get(family, 0)
