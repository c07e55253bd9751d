"""Jobs that kill the process that runs them, and how they are told from those that ran beside them.

A job that is recovered from a dead process is a suspect, like every other that had been begun there; what only waited
in the process is not. The count is in the job itself, and ends with the run: a run that fails or succeeds shows that
the process survived it. One recovery before the limit the job goes on trial: a process runs one such job at a time and
tells the server which. The job on trial when its process dies is the poison, and is buried; the others go on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from goworkers_py import payload
from goworkers_py.errors import PoisonPill, UnreadablePayload
from goworkers_py.failure import error_class, wants_burial
from goworkers_py.message import Message, Timestamps, whole_number
from goworkers_py.options import NOTHING_SAID, CodeOptions

FIELD = "recovered"  # in the payload: {"count": how often, "since": epoch seconds of the first time}


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a job found in a dead process's list."""

    payload: bytes
    buried: bool = False
    discarded: bool = False
    error: PoisonPill | None = None


@dataclass(frozen=True, slots=True)
class PoisonPolicy:
    limit: int = 3  # 0: never
    window_s: float = 72 * 3600
    timestamps: Timestamps = field(default_factory=Timestamps)
    options_for: Callable[[Message], CodeOptions] = lambda message: NOTHING_SAID

    def is_suspect(self, message: Message) -> bool:
        """To be run on trial: dying once more would be once too often."""
        return FIELD in message.fields and 0 < self.limit <= _count(message.get(FIELD)) + 1

    def judge(self, raw: bytes, queue: str, dead_owner: str, begun: bool, trial: str, now: float) -> Fate:
        try:
            message = Message(raw, queue)
        except UnreadablePayload:
            return Fate(raw)
        if not begun or not self.limit:
            return Fate(raw)
        count, since = self._strikes(message, now)
        if count < self.limit:
            return Fate(payload.splice(raw, {FIELD: {"count": count, "since": since}}))
        if name_on_trial(message) != trial:  # another was, if any: this one stays at the brink
            return Fate(payload.splice(raw, {FIELD: {"count": self.limit - 1, "since": since}}))
        return self._bury(message, dead_owner, count, now)

    def _strikes(self, message: Message, now: float) -> tuple[int, float]:
        told = message.get(FIELD)
        since = told.get("since") if isinstance(told, dict) else None
        if not isinstance(since, int | float) or now - since > self.window_s:
            return 1, now
        return _count(told) + 1, since

    def _bury(self, message: Message, dead_owner: str, count: int, now: float) -> Fate:
        error = PoisonPill(
            f"{count} processes died while they ran this job, the last one was {dead_owner}; it is not tried again"
        )
        changes: dict[str, Any] = {
            "queue": message.queue,
            "error_message": str(error),
            "error_class": error_class(error),
            "failed_at" if message.failed_at is None else "retried_at": self.timestamps.write(now),
            "retry_count": message.retry_count or 0,
        }
        buried = wants_burial(message, self.options_for(message))
        return Fate(
            payload.splice(message.raw, changes, drop=(FIELD, "at")), buried=buried, discarded=not buried, error=error
        )


def name_on_trial(message: Message) -> str:
    """By which the server is told of it: a job from elsewhere may have no jid."""
    return message.jid or hashlib.sha1(message.raw, usedforsecurity=False).hexdigest()


def _count(told: Any) -> int:
    return max(0, whole_number(told.get("count")) or 0) if isinstance(told, dict) else 0
