"""A task of a delay queue, and the record in which a persistence keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import simplejson

from goworkers_py.core.errors import UnreadablePayload
from goworkers_py.core.values import NamedTuple
from goworkers_py.wire import payload

V = 1
_OWN = ("v", "id", "due", "type", "params")

NEVER = math.inf  # when a task is due that waits for people

# Notes of a task. The first one is about this process, and not kept; the second one is since when its retries are over.
HELD, DEAD_AT = "held", "dead_at"
Notes = Mapping[str, Any]


class DelayTask(NamedTuple):
    """A task: `id`, `due` (epoch seconds by the persistence's clock), `task_type` and `params`.

    A tuple, because a million of them may wait. It is not changed: a task that is moved is replaced by another.
    """

    id: str
    due: float
    task_type: str
    packed: str | bytes  # the parameters: a text as it is, anything else as JSON
    notes: Notes | None = None  # the other fields of the record: of the last failure, and those of a newer release

    @property
    def params(self) -> Any:
        """The parameters that were pushed, as JSON gives them back. Each call makes a new value."""
        return self.packed if isinstance(self.packed, str) else simplejson.loads(self.packed)

    @property
    def held(self) -> str:
        """Why this process does not run the task when it is due; empty: it does."""
        notes = self.notes or {}
        found: str = notes.get(HELD) or ("it failed for the last time" if DEAD_AT in notes else "")
        return found

    @property
    def is_dead(self) -> bool:
        """Whether the task has failed for good: it is kept, shown by `pending()`, and never runs again."""
        return self.notes is not None and DEAD_AT in self.notes

    def with_notes(self, changes: Notes, due: float | None = None) -> DelayTask:
        """None as a value removes a note."""
        notes = {name: value for name, value in {**(self.notes or {}), **changes}.items() if value is not None}
        return self._replace(due=self.due if due is None else due, notes=notes or None)

    def to_json(self) -> str:
        """The record: `DelayTask.from_json` reads it. For persistences."""
        return f'{self.to_json_without_due()},"due":{"null" if self.due == NEVER else repr(float(self.due))}}}'

    def to_json_without_due(self) -> str:
        """The record without its due time, which a server counts in the step that keeps the record, and without the
        brace behind that."""
        notes = {name: value for name, value in (self.notes or {}).items() if name not in (HELD, "due")}
        return payload.encode({**notes, "v": V, "id": self.id, "type": self.task_type, "params": self.params})[:-1]

    @classmethod
    def from_json(cls, text: str | bytes) -> DelayTask:
        """Raises UnreadablePayload for what is no record of this release."""
        raw = text.encode() if isinstance(text, str) else text
        fields = payload.read(raw)
        if fields.get("v") != V:
            raise UnreadablePayload(f"the record has version {fields.get('v')!r}, and this release writes {V}")
        task_id, due, kind = fields.get("id"), fields.get("due"), fields.get("type")
        if due is None:
            due = NEVER
        if not isinstance(task_id, str) or not isinstance(kind, str) or not isinstance(due, int | float):
            raise UnreadablePayload("the record has no id, type or due time")
        notes = {name: value for name, value in fields.items() if name not in _OWN}
        return cls(task_id, float(due), kind, packed(fields.get("params")), notes or None)

    @classmethod
    def unreadable(cls, task_id: str, why: str) -> DelayTask:
        """Stands for a record that cannot be read: it is kept, shown by `pending()`, and never runs."""
        return cls(task_id, NEVER, "", "", {HELD: f"its record cannot be read: {why}"})


def packed(params: Any) -> str | bytes:
    """The parameters as a task holds them. Raises ArgumentError for what JSON cannot hold."""
    if type(params) is str and params.isascii():
        return params
    payload.check_plain(params, "params")
    return params if isinstance(params, str) else payload.encode(params).encode()


def read_or_held(task_id: str, record: str | bytes) -> DelayTask:
    """The task of a record. A record that cannot be read becomes a task that is held."""
    try:
        return DelayTask.from_json(record)
    except UnreadablePayload as error:
        return DelayTask.unreadable(task_id, str(error))
