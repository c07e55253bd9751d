"""Decides the outcome of a job that needs a feature which this release does not know, see `wire.needs`.

A worker never runs such a job. It reschedules the job, which then goes to the back of its queue, where a newer worker
may fetch it. The payload's field counts these rounds. The pauses grow, up to an hour. After about a day the job goes to
the dead set, with an error that names the need.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import field

from goworkers_py.core import machine
from goworkers_py.core.errors import NeedsNewerRelease
from goworkers_py.core.outcome import Dead, Outcome, Reschedule
from goworkers_py.core.values import dataclass
from goworkers_py.core.version import __version__
from goworkers_py.policy import known_needs
from goworkers_py.wire import needs, payload
from goworkers_py.wire.failure import failure_fields
from goworkers_py.wire.message import Message, Timestamps, jid_where_missing, whole_number
from goworkers_py.wire.ruby import ruby_flaw

log = logging.getLogger(__name__)

# With these pauses, a job is rescheduled again and again for about a day.
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 3_600.0
MOST_ROUNDS = 32
# Payloads come from strangers: an error names at most so many needs of a job, and a process remembers at most so many.
MOST_OF_A_JOB = 10
MOST_REMEMBERED = 100


@dataclass
class Needs:
    """Shared by all workers of a process. `_warned_of` has no lock: two workers may log the same warning, which is
    harmless."""

    timestamps: Timestamps = field(default_factory=Timestamps)
    wall: Callable[[], float] = lambda: machine.time()
    speaks: Collection[str] = field(default_factory=lambda: known_needs.SPEAKS)
    _warned_of: set[str] = field(default_factory=set)

    def unmet(self, message: Message) -> Outcome | None:
        """The outcome of a job that this release must not run; None for any other job."""
        value = message.fields.get(needs.FIELD)
        lacked = needs.lacking(value, self.speaks)
        if not lacked:
            return None
        rounds = max(0, whole_number(value.get("rounds")) or 0) if isinstance(value, dict) else 0
        if not isinstance(value, dict) or rounds >= MOST_ROUNDS:
            why = f"it was rescheduled {rounds} times and no newer worker of queue {message.queue} fetched it"
            return self._bury(message, lacked, why)
        if flaw := ruby_flaw(message.raw):
            return self._bury(message, lacked, f"it cannot wait in the schedule for a newer worker, because {flaw}")
        self._warn(lacked[0], message.queue)
        changes = {"queue": message.queue, **jid_where_missing(message)}
        raw = payload.splice_into(message.raw, needs.FIELD, {"rounds": rounds + 1})
        return Reschedule(self.wall() + _pause_s(rounds), payload.splice(raw, changes, drop=("at",)))

    def _bury(self, message: Message, lacked: Sequence[str], why: str) -> Outcome:
        error = NeedsNewerRelease(
            f"this job needs {', '.join(lacked[:MOST_OF_A_JOB])}, which pyworkers {__version__} does not know; {why}: "
            "start a worker of a newer release, then retry the job"
        )
        log.error("moved to the dead set: %s", error)
        changes = failure_fields(message, error, self.timestamps.write(self.wall()))
        raw = message.raw
        if isinstance(message.get(needs.FIELD), dict):
            raw = payload.splice_into(raw, needs.FIELD, {"rounds": 0})  # a retry by hand starts the rounds anew
        return Dead(payload.splice(raw, changes, drop=("at",)))

    def _warn(self, need: str, queue: str) -> None:
        if need not in self._warned_of and len(self._warned_of) < MOST_REMEMBERED:
            self._warned_of.add(need)
            log.warning(
                "queue %s: a job needs %s, which this release (%s) does not know; such jobs are rescheduled and not "
                "run here. Start a worker of a newer release. Logged once for each need", queue, need, __version__
            )  # fmt: skip


def _pause_s(rounds: int) -> float:
    pause_s: float = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**rounds)
    return pause_s * machine.random.uniform(0.9, 1.1)  # jitter, so that many such jobs do not become due at once
