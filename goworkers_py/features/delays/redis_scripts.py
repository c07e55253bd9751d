"""Calls of the scripts of a delay queue. Each answers first with the time of its step. So a delay queue learns the
clock of the server with each call that it makes anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Argument, Script
from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.features.delays.task import NEVER


class TimedScripts:
    def __init__(self, connections: Connections, clock: Clock) -> None:
        self.connections = connections
        self._clock = clock

    def now(self) -> float:
        return self._clock.wall()

    def call(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> list[Any]:
        """The answer without its time."""
        asked_at = machine.awake_and_asleep()
        answer: list[Any] = self.connections.script(script, keys, arguments)
        self._clock.synchronize(float(answer[0]), asked_at, machine.awake_and_asleep())
        return answer[1:]


def score(due: float) -> str:
    return "+inf" if due == NEVER else repr(due)


def counted_from(now: float | None) -> str:
    return "" if now is None else repr(now)
