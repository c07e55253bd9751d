"""The tasks of a delay queue as the Go program of a time wheel keeps them, which has no absolute due times.

A list has the ids, and `delaytk_<id>` the task as JSON: `Id`, `CycleCount`, `WheelPosition`, `TaskType`, `TaskParams`,
`Next`. When that program starts, it runs each task (`CycleCount` + 1) * 3600 + `WheelPosition` seconds later. So these
two are written from the time that is left, and the due time itself into a field `Due`, which that program passes over.

A task without `Due` was written by that program. Its due time is what that program would make of it, counted from our
first reading, which writes `Due` into the record. `Next` holds the older tasks of a slot in records of that program. It
is not read: each of them has a record of its own until it has run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import simplejson

from goworkers_py.brokers.redis.driver.exchange import Script, text
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.delays.redis_part import LUA, list_key, listed_task_key
from goworkers_py.features.delays.redis_scripts import TimedScripts, counted_from, score
from goworkers_py.features.delays.task import NEVER, DelayTask
from goworkers_py.wire import payload

log = logging.getLogger(__name__)

_SAVE = Script(LUA / "delay_list_save.lua")
TURN_S = 3_600
# Of a dead task: that program would run it in a hundred years.
_NEVER_TURNS = 100 * 365 * 24
PAGE = 500

# Fields of ours: the due time; whether TaskParams is JSON, not a text; the failures of a task.
_DUE, _IS_JSON, _NOTES = "Due", "IsJson", "Notes"
_BEFORE_NEXT = ',"Next":'  # inside of a text the quotes have backslashes before them


class DelayLists:
    def __init__(self, server: TimedScripts, keys: Keys) -> None:
        self._server = server
        self._connections = server.connections
        self._keys = keys
        self._list = list_key(keys, os.environ.get("DELAY_QUEUE_LIST_KEY") or "")

    def save_many(self, tasks: Sequence[DelayTask], now: float | None) -> Sequence[DelayTask]:
        # All or none of them: one call, however many they are.
        keys = [listed_task_key(self._keys, task.id) for task in tasks]
        counted = self._server.now() if now is None else now
        arguments = [part for task in tasks for part in (task.id, score(task.due), _without_due(task, counted))]
        if not arguments:
            return []
        dues = self._server.call(_SAVE, [self._list, *keys], [counted_from(now), *arguments])
        return [task._replace(due=float(due)) for task, due in zip(tasks, dues, strict=True)]

    def delete_many(self, ids: Sequence[str]) -> int:
        if not ids:
            return 0
        # The body goes first: an id without a body is nothing.
        removals = [("LREM", self._list, 0, task_id) for task_id in ids]
        bodies = [listed_task_key(self._keys, task_id) for task_id in ids]
        deleted = self._connections.transaction([("DEL", *bodies), *removals])[0]
        return int(deleted)

    def all(self, now: float) -> Iterator[DelayTask]:
        ids = [text(task_id) for task_id in self._connections.call("LRANGE", self._list, 0, -1)]
        ids = [*dict.fromkeys(ids)]
        for at in range(0, len(ids), PAGE):
            page = ids[at : at + PAGE]
            records = self._connections.exchange([("GET", listed_task_key(self._keys, task_id)) for task_id in page])
            for task_id, record in zip(page, records, strict=True):
                if record is None:
                    log.warning("the list of delayed tasks has an id without a task; nothing can be run id=%s", task_id)
                else:
                    yield self._read(task_id, record, now)

    def _read(self, task_id: str, record: bytes, now: float) -> DelayTask:
        try:
            fields = _fields(record.decode())
            task, is_foreign = _task(task_id, fields, now)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return DelayTask.unreadable(task_id, f"{type(error).__name__}: {error}")
        if is_foreign:
            # From here on a restart does not change its due time. Not where it was deleted meanwhile.
            self._connections.call("SET", listed_task_key(self._keys, task_id), _record(task, now), "XX")
        return task


def _fields(record: str) -> Mapping[str, Any]:
    try:
        found: object = simplejson.loads(record)
    except RecursionError:  # `Next` of a slot of thousands of tasks
        found = simplejson.loads(record[: record.index(_BEFORE_NEXT)] + "}")
    if not isinstance(found, dict):
        raise TypeError("it is no JSON object")
    return found


def _task(task_id: str, fields: Mapping[str, Any], now: float) -> tuple[DelayTask, bool]:
    """The task, and whether that program wrote the record."""
    kind, params = fields["TaskType"], fields["TaskParams"]
    if not isinstance(kind, str) or not isinstance(params, str):
        raise TypeError("TaskType and TaskParams must be texts")
    packed = params.encode() if fields.get(_IS_JSON) else params
    if _DUE in fields:
        due = NEVER if fields[_DUE] is None else float(fields[_DUE])
        return DelayTask(task_id, due, kind, packed, fields.get(_NOTES) or None), False
    left_s = (int(fields["CycleCount"]) + 1) * TURN_S + int(fields["WheelPosition"])
    return DelayTask(task_id, now + max(0, left_s), kind, packed), True


def _record(task: DelayTask, now: float) -> str:
    return f'{_without_due(task, now)},"{_DUE}":{"null" if task.due == NEVER else repr(task.due)}}}'


def _without_due(task: DelayTask, now: float) -> str:
    """The record without `Due`, which is the last field, and without the brace behind that."""
    # At least a second: that program passes over a task that is due at once.
    turns, position = (_NEVER_TURNS, 0) if task.due == NEVER else divmod(max(1, round(task.due - now)), TURN_S)
    fields: dict[str, Any] = {
        "Id": task.id,
        "CycleCount": turns - 1,
        "WheelPosition": position,
        "TaskType": task.task_type,
        "TaskParams": task.packed if isinstance(task.packed, str) else task.packed.decode(),
        "Next": None,
        **({} if isinstance(task.packed, str) else {_IS_JSON: True}),
        **({_NOTES: dict(task.notes)} if task.notes else {}),
    }
    return payload.encode(fields)[:-1]


def address_of_environment() -> str:
    """By the variables of that program."""
    host = os.environ.get("REDIS_ADDR") or "localhost:6379"
    password, database = os.environ.get("REDIS_PWD") or "", os.environ.get("REDIS_DB") or "0"
    login = f":{quote(password, safe='')}@" if password else ""
    return f"redis://{login}{host}/{database}"
