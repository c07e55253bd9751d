"""Jobs that kill the process that runs them, and how they are told from those that ran beside them.

A job that can have been running when its process died is a suspect, like every other such job there: that is a guess,
and it is counted in the job itself. The count ends with the run: a run that fails or succeeds shows that the process
survived it. One death before the limit the job is run in quarantine: alone in its process, after the server was told
its name. Only a death under that name convicts, and only the job of that name: nothing else ran. See `quarantine`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from typing import Any

from goworkers_py.core.errors import PoisonPill, UnreadablePayload
from goworkers_py.wire import payload
from goworkers_py.wire.failure import failure_fields
from goworkers_py.wire.message import Message, Timestamps, epoch, jid_where_missing, whole_number

# In the payload: {"v", "count": deaths, "since": epoch seconds of the first one, "rounds": waits in vain to be alone}.
FIELD = "recovered"
V = 1
# How long a suspect waits for the other jobs of a process to end, in its first and its next rounds; how long it stays
# away after each of them; and how long it runs alone in the end.
PATIENCE_S = (2.0, 5.0, 15.0, 60.0)
AWAY_S = (5.0, 15.0, 45.0, 135.0)
ALONE_S = 60.0
# All that is four times as long after each of this many deaths that convicted nobody: a slow killer among long jobs is
# found, and no job holds a process up for more than 16 minutes at a time.
MOST_STEPS = 2


@dataclass(frozen=True, slots=True)
class RecoveryDecision:
    """What becomes of a job found in a dead process's list."""

    payload: bytes
    error: PoisonPill | None = None  # where there is one, the job is buried


@dataclass(frozen=True, slots=True)
class PoisonPolicy:
    limit: int = 3  # deaths, from 2 on; 0: never
    window_s: float = 72 * 3600
    timestamps: Timestamps = field(default_factory=Timestamps)

    def is_suspect(self, message: Message) -> bool:
        """To be run in quarantine: one more death would reach the limit."""
        return self._deaths_beyond_suspicion(message) >= 0

    def patience_s(self, message: Message) -> float | None:
        """How long a suspect waits to be alone; None when it has waited often enough."""
        rounds = (_Record.of(message) or _Record()).rounds
        return PATIENCE_S[rounds] * self._severity(message) if rounds < len(PATIENCE_S) else None

    def alone_s(self, message: Message) -> float:
        return ALONE_S * self._severity(message)

    def away_s(self, message: Message) -> float:
        """How long a suspect stays away that could not be alone."""
        return AWAY_S[min((_Record.of(message) or _Record()).rounds, len(AWAY_S) - 1)]

    def next_round(self, message: Message) -> bytes:
        """The payload of a suspect that could not be alone, to come back."""
        record = _Record.of(message) or _Record()
        raw = dataclasses.replace(record, rounds=record.rounds + 1).put_into(message)
        changes = {"queue": message.queue, **jid_where_missing(message)}
        return payload.splice(raw, changes, drop=("at",))

    def judge(self, raw: bytes, queue: str, dead_owner: str, begun: bool, alone: str, now: float) -> RecoveryDecision:
        """`begun`: the job can have been running. `alone`: the name of the suspect in quarantine there, or empty."""
        try:
            message = Message(raw, queue)
        except UnreadablePayload:
            return RecoveryDecision(raw)
        record = _Record.of(message)
        if alone:
            begun = name_of(message) == alone  # nothing else was
        if not begun or not self.limit or record is None:
            return RecoveryDecision(raw)
        if record.since is None or now - record.since > self.window_s:
            record = _Record(since=now)
        count = record.count + 1
        if alone and count >= self.limit:
            return self._bury(message, dead_owner, count, now)
        return RecoveryDecision(_Record(count, record.since).put_into(message))

    def _deaths_beyond_suspicion(self, message: Message) -> int:
        """Negative while the job is no suspect."""
        record = _Record.of(message)
        if not self.limit or record is None:
            return -1
        return record.count + 1 - self.limit

    def _severity(self, message: Message) -> int:
        return int(4 ** min(max(0, self._deaths_beyond_suspicion(message)), MOST_STEPS))

    def _bury(self, message: Message, dead_owner: str, count: int, now: float) -> RecoveryDecision:
        """Also a job that says `dead: false`: that is meant for failures, which the application hears of."""
        error = PoisonPill(
            f"{count} processes died while they ran this job, the last one ({dead_owner}) while it ran nothing else; "
            "it is not tried again"
        )
        changes = failure_fields(message, error, self.timestamps.write(now))
        return RecoveryDecision(payload.splice(message.raw, changes, drop=(FIELD, "at")), error)


@dataclass(frozen=True, slots=True)
class _Record:
    """A job's own record of the deaths that it was near. Strangers write payloads too: a field may be anything."""

    count: int = 0
    since: float | None = None
    rounds: int = 0

    @classmethod
    def of(cls, message: Message) -> _Record | None:
        """None for the record of a later version, which is left alone."""
        told = message.get(FIELD)
        if not isinstance(told, dict):
            return cls()
        if told.get("v", V) != V:
            return None
        since = epoch(told.get("since"))
        count, rounds = (max(0, whole_number(told.get(name)) or 0) for name in ("count", "rounds"))
        # A count without its time is no count.
        return cls(count, since, rounds) if since is not None else cls()

    def put_into(self, message: Message) -> bytes:
        told: dict[str, Any] = {"v": V, "count": self.count, "since": self.since}
        if self.rounds:
            told["rounds"] = self.rounds
        if not isinstance(message.get(FIELD), dict):
            return payload.splice(message.raw, {FIELD: told})
        # Keeps what a later release has written there.
        return payload.splice_into(message.raw, FIELD, told, drop=() if self.rounds else ("rounds",))


def name_of(message: Message) -> str:
    """By which the server is told of it. A jid is no name: two jobs may have the same one, or none."""
    return hashlib.sha1(message.raw, usedforsecurity=False).hexdigest()
