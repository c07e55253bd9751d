"""Writes what this process has executed where Sidekiq's Metrics page looks for it, and marks of deploys.

Versions 7 and 8 have layouts of their own, and the page of the one does not see what is written for the other. Both
keep a hash of counts for a minute, and for each class a histogram: a bit field of counters.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timezone

from goworkers_py.brokers.redis.best_effort import BestEffort
from goworkers_py.brokers.redis.connection import Connections, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.membership import members
from goworkers_py.observe.executions import Executions
from goworkers_py.wire.payload import encodable

AUTO, OFF = "auto", "off"

MINUTE_LIFE_S = 8 * 3600
TEN_MINUTES_LIFE_S = 3 * 86_400

SEVEN, EIGHT = 7, 8
LAYOUTS = (SEVEN, EIGHT)

Word = str | int

LOOK_EVERY_S = 60
MARK_LIFE_S = 90 * 86_400
# Of a deploy to many machines the first one makes the mark.
SAME_DEPLOY_S = 60


class SidekiqMetrics:
    """Used by the heartbeat's thread, and by the farewell when that has ended."""

    def __init__(self, connections: Connections, keys: Keys, choice: str) -> None:
        self._connections = connections
        self._keys = keys
        self._choice = choice
        self._layouts: Collection[int] = () if choice in (AUTO, OFF) else (int(choice),)
        self._look_at = 0.0
        self._written: Mapping[str, Executions] = {}
        self._try = BestEffort("nothing can be written for Sidekiq's Metrics page")

    def write(self, total: Mapping[str, Executions], at: float) -> None:
        """`total` is all since the start of this process; what is new is added to the minute of `at`."""
        if self._choice != OFF and total != self._written:
            self._try(lambda: self._write(total, at))

    def _write(self, total: Mapping[str, Executions], at: float) -> None:
        if self._choice == AUTO and time.monotonic() >= self._look_at:
            self._layouts = layouts_of(self._versions())
            self._look_at = time.monotonic() + LOOK_EVERY_S
        news = {name: executions.since(self._written.get(name)) for name, executions in total.items()}
        steps = list(commands(self._keys, self._layouts, _utc(at), news))
        if steps:
            self._connections.transaction(steps)
        self._written = total  # only now: what could not be written comes with the next

    def _versions(self) -> list[str]:
        """Those that the processes of the fleet tell."""
        entries = [("HGET", self._keys.member(one), "info") for one in members(self._connections, self._keys)]
        return [_version(info) for info in self._connections.answers(entries) if info]


def mark(connections: Connections, keys: Keys, label: str, at: float) -> str | None:
    """Marks the minute of `at` with a deploy. None when that was done, else the label that the minute has."""
    minute = _utc(at).replace(second=0, microsecond=0)
    field = minute.strftime("%Y-%m-%dT%H:%M:%SZ")
    if connections.call("SET", keys.deploy_lock(label), field, "EX", SAME_DEPLOY_S, "NX") is None:
        return label
    marks = keys.marks(minute)
    made, has, _ = connections.transaction(
        [("HSETNX", marks, field, label), ("HGET", marks, field), ("EXPIRE", marks, MARK_LIFE_S)]
    )
    return None if made else text(has)


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, timezone.utc)


def _version(info: bytes) -> str:
    try:
        return str(json.loads(info).get("version", ""))
    except (ValueError, AttributeError):
        return ""


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
