"""Tells from the samples whether anything has grown.

The first quarter of a run is the warm-up, in which the places that are bounded fill up. The rest is divided by three,
and the mean of the last third is compared with that of the first one. The growth that is allowed is the noise of such a
mean. It does not grow with the length of a run, so a longer run finds a slower leak: with 1 MB, a run of eight hours
finds 0.25 MB an hour, less than a byte a job.

A machine that is busy with something else has no time for the producer. Then there are fewer jobs and fewer keys than
at other times. So of what jobs make, the upper decile is compared: how much there was in the times with load.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, quantiles, variance
from typing import Any

Sample = dict[str, Any]

MB = 1_000_000
ROLES = ("parent", "child 1", "child 2", "changing", "producer", "redis")

# Beside the constants below, each figure may grow by so many standard errors of the difference: what comes by chance.
ERRORS = 3.0
DECILE_ERROR = 1.7  # of an upper decile, in those of the mean of the same values, for a normal distribution
# Allocators return memory late.
MEMORY_MB = 1.0
SERVER_MEMORY_MB = 0.5  # of the data: the server counts it to the byte, but the number of records differs
THREADS = 1.0
# A process keeps as many connections as its threads have ever used at once. And a page or a command of people may be
# under way in more of the samples of a quarter than in another one.
DESCRIPTORS, CONNECTIONS = 2.0, 3.0
# Of a family of keys, or their entries: the jobs come at an even rate, but when they end is not even.
FEW, SHARE = 3.0, 0.05

FEWEST = 24  # samples after the warm-up


@dataclass(frozen=True)
class Figure:
    """Something that may grow: `read` takes it out of a sample. It may grow by `noise`.

    There is more of some things the more jobs there are: these may also grow by a `share` of themselves."""

    name: str
    unit: str
    read: Callable[[Sample], float | None]
    noise: float
    share: float = 0.0


@dataclass(frozen=True)
class Growth:
    name: str
    unit: str
    before: float  # mean of the first third, or its upper decile
    after: float  # the same of the last third
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

    @property
    def warm(self) -> list[Sample]:
        return [sample for sample in self.loaded if sample["s"] > self.loaded[-1]["s"] / 4]


def read_record(path: Path) -> Record:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    samples = [line for line in lines if "processes" in line]
    head = next(line for line in lines if "begin" in line)
    return Record(head, samples, next((line for line in lines if "end" in line), {}))


def figures() -> Iterator[Figure]:
    for role in ROLES:
        is_server = role == "redis"  # it counts its data itself, and its descriptors are its connections
        if not is_server and role != "changing":  # that is never old, and its memory rises in the minutes of its life
            yield Figure(f"{role}, memory", "MB", _of_process(role, "uss_kb", 1_000), MEMORY_MB)
        yield Figure(f"{role}, threads", "", _of_process(role, "threads"), THREADS)
        noise = CONNECTIONS if is_server else DESCRIPTORS
        yield Figure(f"{role}, descriptors", "", _of_process(role, "descriptors"), noise)
    yield Figure("redis, memory", "MB", lambda sample: sample["redis"]["used_memory"] / MB, SERVER_MEMORY_MB)
    yield Figure("redis, connections", "", lambda sample: sample["redis"]["connected_clients"], CONNECTIONS)
    yield Figure("redis, scripts", "", lambda sample: sample["redis"]["number_of_cached_scripts"], 0.0)
    yield Figure("redis, keys", "", lambda sample: sample["redis"]["dbsize"], FEW, SHARE)
    yield Figure("jobs that have not ended", "", lambda sample: sample["open"], FEW, SHARE)


def families(samples: Sequence[Sample]) -> Iterator[Figure]:
    """Keys by family: how many, how many without a time to live, how many entries."""
    for kind, what in (("keys", "keys"), ("staying", "keys that stay"), ("entries", "entries")):
        for family in sorted({name for sample in samples for name in sample["redis"][kind]}):
            yield Figure(f"{family}, {what}", "", _of_family(kind, family), FEW, SHARE)


def growth_of(figure: Figure, record: Record) -> Growth:
    told = [(sample["s"], value) for sample in record.warm if (value := figure.read(sample)) is not None]
    third = len(told) // 3
    first, last = ([value for _, value in part] for part in (told[:third], told[-third:]))
    hours = (told[-third][0] - told[0][0]) / 3600
    error = math.sqrt(variance(first) / len(first) + variance(last) / len(last))
    if figure.share:
        before, after, error = _upper_decile(first), _upper_decile(last), DECILE_ERROR * error
    else:
        before, after = mean(first), mean(last)
    allowed = max(figure.noise, figure.share * before, ERRORS * error)
    return Growth(figure.name, figure.unit, before, after, (after - before) / hours, allowed)


def judge(record: Record) -> list[str]:
    """What is wrong: what has grown, which jobs were lost, how the run failed."""
    if len(record.warm) < FEWEST:
        return ["too few samples"]
    found = [growth_of(figure, record) for figure in (*figures(), *families(record.warm))]
    grown = [
        f"{one.name} has grown from {one.before:.5g} to {one.after:.5g}, by {one.per_h:.3g} an hour"
        for one in found
        if not one.is_flat
    ]
    unfinished = [] if record.end else ["the run did not come to its end"]
    return [*record.end.get("wrong", ()), *unfinished, *grown]


def _upper_decile(values: Sequence[float]) -> float:
    return quantiles(values, n=10)[-1]


def _of_process(role: str, name: str, divisor: float = 1) -> Callable[[Sample], float | None]:
    """None where the process was between two lives."""

    def read(sample: Sample) -> float | None:
        value = sample["processes"].get(role, {}).get(name)
        return None if value is None else value / divisor

    return read


def _of_family(kind: str, family: str) -> Callable[[Sample], float]:
    return lambda sample: sample["redis"][kind].get(family, 0)
