"""Writes what this process has executed where Sidekiq's Metrics page looks for it, and marks of deploys."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from datetime import datetime, timezone

from goworkers_py.brokers.redis.best_effort import Courtesy
from goworkers_py.brokers.redis.connection import Connections, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.membership import members
from goworkers_py.observe.executions import Executions, commands, layouts_of

AUTO, OFF = "auto", "off"

LOOK_EVERY_S = 60
MARK_LIFE_S = 90 * 86_400
# Of a deploy to many machines the first one makes the mark.
SAME_DEPLOY_S = 60


class Metrics:
    """Used by the heartbeat's thread, and by the farewell when that has ended."""

    def __init__(self, connections: Connections, keys: Keys, choice: str) -> None:
        self._connections = connections
        self._keys = keys
        self._choice = choice
        self._layouts: Collection[int] = () if choice in (AUTO, OFF) else (int(choice),)
        self._look_at = 0.0
        self._written: Mapping[str, Executions] = {}
        self._try = Courtesy("nothing can be written for Sidekiq's Metrics page")

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
