"""What Sidekiq's Metrics page reads: runs, failures and run times of each class, by the minute.

Versions 7 and 8 have layouts of their own, and the page of the one does not see what is written for the other. Both
keep a hash of counts for a minute, and for each class a histogram: a bit field of counters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.wire.payload import encodable

# Sidekiq's: the upper bounds of the buckets in seconds. There is one more for what takes longer.
BOUNDS_S = (
    0.020, 0.030, 0.045, 0.065, 0.100, 0.150, 0.225, 0.335, 0.500, 0.750, 1.1, 1.7, 2.5, 3.8, 5.75, 8.5, 13.0, 20.0,
    30.0, 45.0, 65.0, 100.0, 150.0, 225.0, 335.0,
)  # fmt: skip

MINUTE_LIFE_S = 8 * 3600
TEN_MINUTES_LIFE_S = 3 * 86_400

SEVEN, EIGHT = 7, 8
LAYOUTS = (SEVEN, EIGHT)

Word = str | int


class Executions(NamedTuple):
    """Of one class. Run times are those of runs that ended well."""

    runs: int
    failures: int
    milliseconds: int
    histogram: tuple[int, ...]

    def plus(self, other: Executions, sign: int = 1) -> Executions:
        return Executions(
            self.runs + sign * other.runs,
            self.failures + sign * other.failures,
            self.milliseconds + sign * other.milliseconds,
            tuple(one + sign * more for one, more in zip(self.histogram, other.histogram, strict=True)),
        )

    def since(self, before: Executions | None) -> Executions:
        return self if before is None else self.plus(before, -1)


def total(several: Iterable[Mapping[str, Executions]]) -> dict[str, Executions]:
    """Of several queues together."""
    sums: dict[str, Executions] = {}
    for executions in several:
        for name, more in executions.items():
            sums[name] = sums[name].plus(more) if name in sums else more
    return sums


def layouts_of(versions: Iterable[str]) -> Collection[int]:
    """The layouts for the Sidekiq versions that run; both where none tells its version, for a page may be there that
    has no process, and what nobody reads is small and gone after hours."""
    majors = {int(found[1]) for version in versions if (found := re.match(r"(\d+)\.", version))}
    return {EIGHT if major >= EIGHT else SEVEN for major in majors if major >= SEVEN} or (() if majors else LAYOUTS)


def commands(
    keys: Keys, layouts: Collection[int], at: datetime, news: Mapping[str, Executions]
) -> Iterator[list[Word]]:
    """What adds `news`, by class, to the minute of `at`, in UTC."""
    told = {name: executions for name, executions in news.items() if executions.runs and _can_be_told(name)}
    if not told:
        return
    for layout in layouts:
        if layout == SEVEN:
            yield from _counts(keys.minute_of_seven(at), MINUTE_LIFE_S, told)
        else:
            yield from _counts(keys.minute_of_eight(at), MINUTE_LIFE_S, told)
            yield from _counts(keys.ten_minutes_of_eight(at), TEN_MINUTES_LIFE_S, told)
        histogram_of = keys.histogram_of_seven if layout == SEVEN else keys.histogram_of_eight
        for name, executions in told.items():
            yield from _histogram(histogram_of(name, at), executions.histogram)


def _can_be_told(name: str) -> bool:
    """Who reads splits a field at the bar."""
    return name != "" and "|" not in name and encodable(name)


def _counts(key: str, life_s: int, told: Mapping[str, Executions]) -> Iterator[list[Word]]:
    for name, (runs, failures, milliseconds, _) in told.items():
        for field, amount in (("p", runs), ("f", failures), ("ms", milliseconds)):
            if amount:
                yield ["HINCRBY", key, f"{name}|{field}", amount]
    yield ["EXPIRE", key, life_s]


def _histogram(key: str, counts: Iterable[int]) -> Iterator[list[Word]]:
    increments: list[Word] = []
    for bucket, count in enumerate(counts):
        if count:
            increments += ["INCRBY", "u16", f"#{bucket}", count]
    if increments:
        yield ["BITFIELD", key, "OVERFLOW", "SAT", *increments]
        yield ["EXPIRE", key, MINUTE_LIFE_S]
