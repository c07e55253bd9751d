"""The persistence of a delay queue in Redis, which any number of processes may share."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ConfigError
from goworkers_py.features.delays.contract import Claims
from goworkers_py.features.delays.redis_lists import DelayLists, address_of_environment
from goworkers_py.features.delays.redis_part import LUA, delay_keys
from goworkers_py.features.delays.redis_scripts import TimedScripts, counted_from, score
from goworkers_py.features.delays.task import DelayTask, read_or_held

_SAVE = Script(LUA / "delay_save.lua")
_DELETE = Script(LUA / "delay_delete.lua")
_BEAT = Script(LUA / "delay_beat.lua")
_TAKE = Script(LUA / "delay_take.lua")
_CANCEL = Script(LUA / "delay_cancel.lua")
_END = Script(LUA / "delay_end.lua")

# Tasks in one call of a script: a script holds up the server for all others.
AT_ONCE = 500
PAGE = 1_000
# An owner asks for less. A lease that ends later was given before the clock of the server was set back.
LONGEST_LEASE_S = 60.0

OURS, DELAYTK = "pyworkers", "delaytk"
DEFAULT_URL = "redis://localhost:6379/0"


class RedisPersistence:
    """Tasks in Redis: `workers.DelayQueue(executors, workers.RedisPersistence("redis://localhost:6379/0"))`. Several
    processes may share them.

    `name` tells several delay queues on one server apart. With `layout="delaytk"` the tasks are kept as the Go program
    of a time wheel keeps them, in `__delay_queue_list__` and `delaytk_<id>`: one process at a time may use them.
    """

    def __init__(
        self, url: str | None = None, *, name: str = "default", namespace: str = "", layout: str = OURS
    ) -> None:
        if layout not in (OURS, DELAYTK):
            raise ConfigError(f"RedisPersistence: there is no layout {layout!r}; use {OURS!r} or {DELAYTK!r}")
        is_ours, keys = layout == OURS, Keys(namespace)
        address = os.environ.get("PYWORKERS_BROKER") or DEFAULT_URL if is_ours else address_of_environment()
        try:
            self._connections = Connections(url or address, "pyworkers-delays")
        except ConfigError as error:
            whose = "" if url or not is_ours else " of PYWORKERS_BROKER; give another one, or another persistence"
            raise ConfigError(f"RedisPersistence: {error}{whose}") from None
        self.clock = Clock()  # as the server counts, after the first answer
        server = TimedScripts(self._connections, self.clock)
        records = _Records(server, delay_keys(keys, name))
        self.claims: Claims | None = records if is_ours else None
        self._kept = records if is_ours else DelayLists(server, keys)

    def save(self, task: DelayTask) -> None:
        self._kept.save_many([task], None)

    def save_many(self, tasks: Sequence[DelayTask]) -> None:
        self._kept.save_many(tasks, None)

    def save_from(self, tasks: Sequence[DelayTask], now: float) -> Sequence[DelayTask]:
        return self._kept.save_many(tasks, now)

    def list(self) -> Iterable[DelayTask]:
        return self._kept.all(self.time())

    def delete(self, task_id: str) -> bool:
        return self._kept.delete_many([task_id]) > 0

    def delete_many(self, ids: Sequence[str]) -> None:
        self._kept.delete_many(ids)

    def time(self) -> float:
        asked_at = machine.awake_and_asleep()
        seconds, micros = self._connections.call("TIME")
        now = int(seconds) + int(micros) / 1e6
        self.clock.synchronize(now, asked_at, machine.awake_and_asleep())
        return now

    def close(self) -> None:
        self._connections.close()


class _Records:
    """Our own layout: a hash of records, and a sorted set of due times."""

    def __init__(self, server: TimedScripts, keys: tuple[str, str, str, str]) -> None:
        self._server = server
        self._connections = server.connections
        self._keys = keys
        self._tasks, self._due, _, self._owners = keys

    def save_many(self, tasks: Sequence[DelayTask], now: float | None) -> Sequence[DelayTask]:
        # All or none of them: one call, however many they are.
        arguments = [part for task in tasks for part in (task.id, score(task.due), task.to_json_without_due())]
        if not arguments:
            return []
        dues = self._server.call(_SAVE, self._keys[:3], [counted_from(now), *arguments])
        return [task._replace(due=float(due)) for task, due in zip(tasks, dues, strict=True)]

    def delete_many(self, ids: Sequence[str]) -> int:
        chunks = (ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE))
        return sum(int(self._connections.script(_DELETE, self._keys[:3], chunk)) for chunk in chunks)

    def all(self, _: float) -> Iterator[DelayTask]:
        ids: list[str] = []
        for task_id, _due in self._by_due("+inf"):
            ids.append(task_id)
            if len(ids) == PAGE:
                yield from self.read(ids)
                ids = []
        yield from self.read(ids)

    # --- the claims

    def beat(self, owner: str, lease_s: float) -> None:
        self._server.call(_BEAT, [self._owners], [owner, lease_s, LONGEST_LEASE_S])

    def leave(self, owner: str) -> None:
        self._connections.call("ZREM", self._owners, owner)

    def take(self, owner: str, claim: str, ids: Sequence[str], now: float) -> list[DelayTask]:
        found = self._server.call(_TAKE, self._keys, [owner, _claim(owner, claim), score(now), *ids])
        return [read_or_held(text(found[at]), found[at + 1]) for at in range(0, len(found), 2)]

    def end(
        self,
        owner: str,
        claim: str,
        done: Collection[str],
        again: Sequence[DelayTask],
        free: Collection[str],
        now: float | None = None,
    ) -> Sequence[DelayTask]:
        arguments: list[str] = []
        for task in again:
            arguments += (task.id, score(task.due), task.to_json_without_due())
        for task_id in done:
            arguments += (task_id, "", "")
        for task_id in free:
            arguments += (task_id, "0", "")
        if not arguments:
            return []
        dues = self._server.call(_END, self._keys[:3], [_claim(owner, claim), counted_from(now), *arguments])
        return [task._replace(due=float(due)) for task, due in zip(again, dues, strict=False) if due]

    def cancel(self, owner: str, task_id: str) -> bool:
        return int(self._connections.script(_CANCEL, self._keys, [owner, task_id])) > 0

    def coming(self, until: float) -> Iterator[tuple[str, float]]:
        return self._by_due(score(until))

    def read(self, ids: Sequence[str]) -> list[DelayTask]:
        if not ids:
            return []
        records = self._connections.call("HMGET", self._tasks, *ids)
        return [
            read_or_held(task_id, record) for task_id, record in zip(ids, records, strict=True) if record is not None
        ]

    def _by_due(self, until: str) -> Iterator[tuple[str, float]]:
        """Page by page. Each page begins at the last due time of the page before, behind the tasks of that time that
        it had: a task that goes meanwhile may hide another one from this call, and not from the next."""
        first, skipped = "-inf", 0
        while True:
            words = ("ZRANGEBYSCORE", self._due, first, until, "WITHSCORES", "LIMIT", skipped, PAGE)
            reply = self._connections.call(*words)
            page = [(text(reply[at]), reply[at + 1].decode()) for at in range(0, len(reply), 2)]
            for task_id, due in page:
                skipped = skipped + 1 if due == first else 1
                first = due
                yield task_id, float(due)
            if len(page) < PAGE:
                return


def _claim(owner: str, claim: str) -> str:
    return f"{claim} {owner}"
