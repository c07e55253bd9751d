"""Writes the executions of this process for Sidekiq's Metrics page.

Sidekiq 7 and 8 have different layouts, and the page of each reads its own layout only. Both layouts have a hash of
counts for each minute, and for each class a histogram: a bit field of counters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timezone

import simplejson

from goworkers_py.brokers.redis.driver.best_effort import BestEffort
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.fleet.membership import members
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.observe.executions import Executions
from goworkers_py.wire.payload import encodable

AUTO, OFF = "auto", "off"

MINUTE_LIFE_S = 8 * 3600
TEN_MINUTES_LIFE_S = 3 * 86_400

SEVEN, EIGHT = 7, 8
LAYOUTS = (SEVEN, EIGHT)

Word = str | int

LOOK_EVERY_S = 60.0  # how often to read the versions of the fleet's processes


class SidekiqMetrics:
    """Used by the heartbeat thread; after that has ended, by the thread that stops the process."""

    def __init__(self, connections: Connections, keys: Keys, choice: str, look_every_s: float = LOOK_EVERY_S) -> None:
        self._connections = connections
        self._keys = keys
        self._choice = choice
        self._layouts: Collection[int] = () if choice in (AUTO, OFF) else (int(choice),)
        self._look_every_s = look_every_s
        self._look_at = 0.0
        self._written: Mapping[str, Executions] = {}
        self._try = BestEffort("nothing can be written for Sidekiq's Metrics page")

    def write(self, total: Mapping[str, Executions], at: float) -> None:
        """Adds the new executions to the minute of `at`. `total` counts all since the start of this process."""
        if self._choice != OFF and total != self._written:
            self._try(lambda: self._write(total, at))

    def _write(self, total: Mapping[str, Executions], at: float) -> None:
        if self._choice == AUTO and machine.monotonic() >= self._look_at:
            self._layouts = layouts_of(self._versions())
            self._look_at = machine.monotonic() + self._look_every_s
        news = {name: executions.since(self._written.get(name)) for name, executions in total.items()}
        steps = list(commands(self._keys, self._layouts, _utc(at), news))
        if steps:
            self._connections.transaction(steps)
        self._written = total  # after the exchange: after an error, the next call writes these executions too

    def _versions(self) -> list[str]:
        """The versions in the entries of the fleet's processes."""
        entries = [("HGET", self._keys.member(identity), "info") for identity in members(self._connections, self._keys)]
        return [_version(info) for info in self._connections.answers(entries) if info]


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, timezone.utc)


def _version(info: bytes) -> str:
    try:
        return str(simplejson.loads(info).get("version", ""))
    except (ValueError, AttributeError, RecursionError):
        return ""


def layouts_of(versions: Iterable[str]) -> Collection[int]:
    """The layouts for the Sidekiq versions that run. Both layouts when no process of Sidekiq says its version: a page
    may run without a process, and a layout that nobody reads is small and expires after hours."""
    majors = {int(found[1]) for version in versions if (found := re.match(r"(\d+)\.", version))}
    return {EIGHT if major >= EIGHT else SEVEN for major in majors if major >= SEVEN} or (() if majors else LAYOUTS)


def commands(
    keys: Keys, layouts: Collection[int], at: datetime, news: Mapping[str, Executions]
) -> Iterator[list[Word]]:
    """The commands that add `news`, by class, to the minute of `at`, in UTC."""
    by_class = {name: executions for name, executions in news.items() if executions.runs and _fits_a_field(name)}
    if not by_class:
        return
    for layout in layouts:
        if layout == SEVEN:
            yield from _counts(keys.minute_of_seven(at), MINUTE_LIFE_S, by_class)
        else:
            yield from _counts(keys.minute_of_eight(at), MINUTE_LIFE_S, by_class)
            yield from _counts(keys.ten_minutes_of_eight(at), TEN_MINUTES_LIFE_S, by_class)
        histogram_of = keys.histogram_of_seven if layout == SEVEN else keys.histogram_of_eight
        for name, executions in by_class.items():
            yield from _histogram(histogram_of(name, at), executions.histogram)


def _fits_a_field(name: str) -> bool:
    """False for a name that breaks a field: Sidekiq's page splits a field at the bar."""
    return name != "" and "|" not in name and encodable(name)


def _counts(key: str, life_s: int, by_class: Mapping[str, Executions]) -> Iterator[list[Word]]:
    for name, (runs, failures, milliseconds, _) in by_class.items():
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
