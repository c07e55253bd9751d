"""Finds jobs that kill their process, and keeps apart the jobs that only ran beside them.

When a process dies, each job that can have been running in it may have killed it. So the payload of each counts the
death. A run that fails or succeeds ends the count, because the process survived the run. With a count one below the
limit the job is a suspect, and a worker runs it in quarantine: alone in its process, after a beat has sent its name to
the broker. Only a death while the broker has that name proves something, and only about the job of that name, because
no other job ran. See `quarantine`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from dataclasses import field
from typing import Any

from goworkers_py.config.options import Config
from goworkers_py.core.effect import Effect
from goworkers_py.core.errors import PoisonPill, UnreadablePayload
from goworkers_py.core.levels import bare_list_of, base_of
from goworkers_py.core.values import dataclass
from goworkers_py.policy.bodies import job_of_body
from goworkers_py.wire import payload
from goworkers_py.wire.failure import failure_fields
from goworkers_py.wire.message import Message, Timestamps, epoch, jid_where_missing, whole_number

log = logging.getLogger(__name__)

# In the payload: {"v", "count": deaths, "since": epoch seconds of the first death, "rounds": waits to run alone that
# failed, "mark": the name of its clues and "verdict": when it may be buried, see `contracts.death_clues`}.
FIELD = "recovered"
V = 1
# PATIENCE_S: how long a suspect waits for the other jobs of its process to end, in its first and each later round.
# AWAY_S: for how long it is rescheduled after each of these rounds. ALONE_S: how long it then runs alone at most; after
# that other jobs run beside it.
PATIENCE_S = (2.0, 5.0, 15.0, 60.0)
AWAY_S = (5.0, 15.0, 45.0, 135.0)
ALONE_S = 60.0
# PATIENCE_S and ALONE_S are four times as long after each further death that proved nothing, up to so many deaths. So a
# job that kills its process late, among long jobs, is found. No suspect keeps other jobs from running for more than 16
# minutes at a time.
MOST_STEPS = 2


@dataclass(frozen=True, slots=True)
class RecoveryDecision:
    """The decision about a job that was in progress in a dead process."""

    payload: bytes
    error: PoisonPill | None = None  # if set, the job is buried; otherwise it goes back to its queue
    effects: tuple[Effect, ...] = ()
    queue: str = ""  # the queue to which it goes back; empty: that of its delivery


@dataclass(frozen=True, slots=True)
class PoisonPolicy:
    limit: int = 3  # deaths, 2 or more; 0: no job is ever buried as poison
    window_s: float = 72 * 3600
    timestamps: Timestamps = field(default_factory=Timestamps)

    @classmethod
    def of(cls, config: Config) -> PoisonPolicy:
        return cls(config.poison_limit, config.poison_window, Timestamps(config.timestamps))

    def is_suspect(self, message: Message) -> bool:
        """Whether to run the job in quarantine: one more death would reach the limit."""
        return self._deaths_beyond_suspicion(message) >= 0

    def patience_s(self, message: Message) -> float | None:
        """How long a suspect waits to run alone in this round; None if it has had all its rounds."""
        rounds = (_Record.of(message) or _Record()).rounds
        return PATIENCE_S[rounds] * self._severity(message) if rounds < len(PATIENCE_S) else None

    def alone_s(self, message: Message) -> float:
        return ALONE_S * self._severity(message)

    def away_s(self, message: Message) -> float:
        """For how long to reschedule a suspect that could not run alone."""
        return AWAY_S[min((_Record.of(message) or _Record()).rounds, len(AWAY_S) - 1)]

    def next_round(self, message: Message) -> bytes:
        """The payload with which to reschedule a suspect that could not run alone."""
        record = _Record.of(message) or _Record()
        raw = dataclasses.replace(record, rounds=record.rounds + 1).put_into(message)
        changes = {"queue": message.queue, **jid_where_missing(message)}
        return payload.splice(raw, changes, drop=("at",))

    def counted(self, message: Message, clue_name: str, deaths: int, now: float) -> Message | None:
        """The job with a record of the deaths of which its clues tell. None if its record is of a later version."""
        record = _Record.of(message)
        if record is None:
            return None
        since = now if record.since is None else record.since
        counted = dataclasses.replace(record, count=deaths, since=since, clue_name=clue_name)
        return Message(counted.put_into(message), message.queue)

    def awaiting_verdict(self, message: Message, at: float | None) -> bytes:
        """The payload of a counted job that waits until `at` for its verdict; None: it waits no more."""
        return dataclasses.replace(_Record.of(message) or _Record(), verdict=at).put_into(message)

    def judge(self, raw: bytes, queue: str, dead_owner: str, begun: bool, alone: str, now: float) -> RecoveryDecision:
        """`begun`: the job can have been running when `dead_owner` died. `alone`: the name of the suspect that was in
        quarantine there, or empty. Never raises, so that the other jobs are recovered whatever strangers wrote."""
        try:
            return self._judge(raw, queue, dead_owner, begun, alone, now)
        except Exception:
            log.exception("a job of dead process %s cannot be judged, and goes back to queue %s", dead_owner, queue)
            return RecoveryDecision(raw)

    def _judge(self, raw: bytes, queue: str, dead_owner: str, begun: bool, alone: str, now: float) -> RecoveryDecision:
        if bare_list_of(queue):
            return self._judge_body(raw, queue, begun and not alone, now)
        try:
            message = Message(raw, queue)
        except UnreadablePayload:
            return RecoveryDecision(raw)
        record = _Record.of(message)
        if alone:
            begun = name_of(message) == alone  # no other job was running
        if not begun or not self.limit or record is None:
            return RecoveryDecision(raw)
        if record.since is None or now - record.since > self.window_s:
            record = _Record(since=now)
        count = record.count + 1
        if alone and count >= self.limit:
            return self.bury(message, count, now, f" ({dead_owner})")
        return RecoveryDecision(_Record(count, record.since).put_into(message))

    def _judge_body(self, body: bytes, queue: str, begun: bool, now: float) -> RecoveryDecision:
        """A bare body cannot count deaths. One that was begun becomes a job, which can."""
        if not begun or not self.limit:
            return RecoveryDecision(body)
        name = base_of(queue)
        message = Message(job_of_body(body, name, self.timestamps.write(now)), name)
        return RecoveryDecision(_Record(1, now).put_into(message), queue=name)

    def _deaths_beyond_suspicion(self, message: Message) -> int:
        """Negative if the job is no suspect; 0 if it is one death below the limit."""
        record = _Record.of(message)
        if not self.limit or record is None:
            return -1
        return record.count + 1 - self.limit

    def _severity(self, message: Message) -> int:
        return int(4 ** min(max(0, self._deaths_beyond_suspicion(message)), MOST_STEPS))

    def bury(self, message: Message, count: int, now: float, last: str = "") -> RecoveryDecision:
        """Buries the job even with `dead: false`: that option is for failures, which the application's handlers get."""
        error = PoisonPill(
            f"{count} processes died while they ran this job, the last one{last} while it ran nothing else; "
            "it is not retried"
        )
        changes = failure_fields(message, error, self.timestamps.write(now))
        return RecoveryDecision(payload.splice(message.raw, changes, drop=(FIELD, "at")), error)


@dataclass(frozen=True, slots=True)
class _Record:
    """The payload's record of the deaths during which the job can have been running. Strangers write payloads too, so
    any field may hold anything."""

    count: int = 0
    since: float | None = None
    rounds: int = 0
    clue_name: str = ""
    verdict: float | None = None

    @classmethod
    def of(cls, message: Message) -> _Record | None:
        """None for a record of a later version, which is not changed."""
        record = message.get(FIELD)
        if not isinstance(record, dict):
            return cls()
        if record.get("v", V) != V:
            return None
        since = epoch(record.get("since"))
        count, rounds = (max(0, whole_number(record.get(name)) or 0) for name in ("count", "rounds"))
        # A count without the time of the first death does not count.
        if since is None:
            return cls()
        clue_name = record.get("mark")
        return cls(count, since, rounds, clue_name if payload.is_name(clue_name) else "", epoch(record.get("verdict")))

    def put_into(self, message: Message) -> bytes:
        record: dict[str, Any] = {"v": V, "count": self.count, "since": self.since}
        more = {"rounds": self.rounds, "mark": self.clue_name, "verdict": self.verdict}
        record |= {name: value for name, value in more.items() if value}
        if not isinstance(message.get(FIELD), dict):
            return payload.splice(message.raw, {FIELD: record})
        # Keeps the fields that a later release has written into the record.
        return payload.splice_into(message.raw, FIELD, record, drop=[name for name in more if not more[name]])


def clue_name_of(message: Message) -> str:
    """The name of its clues; empty if it has none."""
    record = _Record.of(message)
    return "" if record is None else record.clue_name


def verdict_at(message: Message) -> float | None:
    record = _Record.of(message)
    return None if record is None else record.verdict


def name_of(message: Message) -> str:
    """The name of a suspect in beats. Not its jid: two jobs may have the same jid, or none."""
    return hashlib.sha1(message.raw, usedforsecurity=False).hexdigest()
