"""Counts of each queue by day. Each process adds those of its runs after a beat; the counts of the fleet by day are
Sidekiq's, which change in the step in which a job is settled."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence

from goworkers_py.brokers.contracts.fleet import Counts, Day
from goworkers_py.brokers.redis.driver.best_effort import BestEffort
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.settlement import DAY_COUNTER_LIFE_S
from goworkers_py.brokers.redis.server.damage import count_in
from goworkers_py.observe.executions import ByQueue
from goworkers_py.wire.payload import encodable


class DayCounts:
    """Used by the thread that reports this process."""

    def __init__(self, connections: Connections, keys: Keys) -> None:
        self._connections = connections
        self._keys = keys
        self._written: dict[str, Counts] = {}
        self._try = BestEffort("the jobs of each queue cannot be counted by day")

    def write(self, total: ByQueue, at: float) -> None:
        """Adds what is new since the last call to the day of `at`. `total` counts all since the start."""
        now = {
            queue: Counts(
                sum(executions.runs for executions in classes.values()),
                sum(executions.failures for executions in classes.values()),
            )
            for queue, classes in total.items()
            if encodable(queue)
        }
        if now != self._written:
            self._try(lambda: self._write(now, at))

    def _write(self, now: dict[str, Counts], at: float) -> None:
        key = self._keys.day(datetime.datetime.fromtimestamp(at, datetime.timezone.utc).date())
        steps: list[tuple[str | int, ...]] = [
            ("HINCRBY", key, f"{queue}|{what}", amount)
            for queue, counts in now.items()
            for what, amount in counts.since(self._written.get(queue, Counts()))._asdict().items()
            if amount
        ]
        if steps:
            self._connections.transaction([*steps, ("EXPIRE", key, DAY_COUNTER_LIFE_S)])
        self._written = now  # after the exchange: after an error, the next call writes these too


def read_days(connections: Connections, keys: Keys, days: Sequence[datetime.date]) -> Iterator[Day]:
    """A damaged count is 0, and hides no other one."""
    asked = [
        step
        for day in days
        for step in (("GET", keys.processed_on(day)), ("GET", keys.failed_on(day)), ("HGETALL", keys.day(day)))
    ]
    replies = connections.answers(asked)
    for day, processed, failed, queues in zip(days, replies[::3], replies[1::3], replies[2::3], strict=True):
        counts = Counts(count_in(keys.processed_on(day), processed), count_in(keys.failed_on(day), failed))
        yield Day(day.isoformat(), *counts, _of_queues(keys.day(day), queues or ()))


def _of_queues(key: str, flat: Sequence[bytes]) -> Mapping[str, Counts]:
    queues: dict[str, Counts] = {}
    for field, raw in zip(flat[::2], flat[1::2], strict=True):
        queue, _, what = text(field).rpartition("|")
        if what in Counts._fields:
            queues[queue] = queues.get(queue, Counts())._replace(**{what: count_in(f"{key} {text(field)}", raw)})
    return dict(sorted(queues.items()))
