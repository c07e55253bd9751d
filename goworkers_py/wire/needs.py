"""What a job needs of the worker that runs it, in a fleet whose releases are mixed.

A job that uses a feature which an older release does not know has the field `pyworkers`: {"v": 1, "needs": ["..."]}.
A worker never runs a job that needs a feature which the worker does not speak: the job goes into the schedule, to come
back at the end of its queue, where a newer worker may take it. Each such round is counted in the field, and the pauses
grow. After about a day the job goes to the dead set, with an error that names the need.

Only pyworkers reads the field, and only since 0.2.0: the producer looks at the workers first, see `Workers`.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from goworkers_py.core.errors import ArgumentError, BrokerRefused, NeedsNewerRelease
from goworkers_py.core.outcome import Dead, Outcome, Reschedule
from goworkers_py.core.version import __version__
from goworkers_py.wire import payload
from goworkers_py.wire.failure import failure_fields
from goworkers_py.wire.message import Message, Timestamps, jid_where_missing, whole_number

log = logging.getLogger(__name__)

FIELD = "pyworkers"
V = 1
# The features that a job may need and that this release knows. None of those that 0.1.0 did not know needs a worker.
SPEAKS: frozenset[str] = frozenset()

# With these pauses a job comes back for about a day.
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 3_600.0
MOST_ROUNDS = 32
# Needs come from strangers' payloads: each is cut to this length, and no more of them are told of one job, or
# remembered by a process.
LONGEST_NEED = 100
MOST_OF_A_JOB = 10
MOST_REMEMBERED = 100
# How long a producer trusts the last look at the workers.
LOOK_EVERY_S = 5.0


def field_of(needs: Collection[str]) -> dict[str, Any]:
    """The value of the payload's field."""
    return {"v": V, "needs": sorted(needs)}


def lacking(told: Any, speaks: Collection[str]) -> list[str]:
    """What of a payload's field this release lacks. What it cannot read is something that it lacks."""
    if not isinstance(told, dict):
        return [f"a field `{FIELD}` of another shape"]
    if told.get("v") != V or isinstance(told["v"], bool):
        return [f"version {_brief(told.get('v'))} of the field `{FIELD}`"]
    wanted = told.get("needs")
    if not isinstance(wanted, list):
        return [f"needs of another shape: {_brief(wanted)}"]
    return [_brief(need) for need in wanted if not isinstance(need, str) or need not in speaks]


def _brief(told: Any) -> str:
    """For people, whatever a stranger wrote."""
    if isinstance(told, int | float) and abs(told) < 1_000:
        return f"{told:g}"
    text = told[:LONGEST_NEED] if isinstance(told, str) else f"of type {type(told).__name__}"
    return text.encode("unicode_escape").decode()[:LONGEST_NEED]


@dataclass
class Needs:
    """What becomes of a job with needs. Shared by all workers of a process; a warning given twice does no harm."""

    timestamps: Timestamps = field(default_factory=Timestamps)
    wall: Callable[[], float] = time.time
    speaks: Collection[str] = field(default_factory=lambda: SPEAKS)
    _warned_of: set[str] = field(default_factory=set)

    def unmet(self, message: Message) -> Outcome | None:
        """None for a job that this release may run."""
        told = message.get(FIELD)
        lacked = lacking(told, self.speaks)
        if not lacked:
            return None
        rounds = max(0, whole_number(told.get("rounds")) or 0) if isinstance(told, dict) else 0
        if not isinstance(told, dict) or rounds >= MOST_ROUNDS:
            met_none = f"it came back to queue {message.queue} {rounds} times and met no worker that does"
            return self._bury(message, lacked, met_none)
        if flaw := payload.ruby_flaw(message.raw):
            return self._bury(message, lacked, f"it cannot wait for a worker that does, because {flaw}")
        self._warn(lacked[0], message.queue)
        changes = {"queue": message.queue, **jid_where_missing(message)}
        raw = payload.splice_into(message.raw, FIELD, {"rounds": rounds + 1})
        return Reschedule(self.wall() + _pause_s(rounds), payload.splice(raw, changes, drop=("at",)))

    def _bury(self, message: Message, lacked: Sequence[str], why: str) -> Outcome:
        error = NeedsNewerRelease(
            f"this job needs {', '.join(lacked[:MOST_OF_A_JOB])}, which pyworkers {__version__} does not know; {why}: "
            "start one of a newer release, then retry the job"
        )
        log.error("moved to the dead set: %s", error)
        changes = failure_fields(message, error, self.timestamps.write(self.wall()))
        raw = message.raw
        if isinstance(message.get(FIELD), dict):
            raw = payload.splice_into(raw, FIELD, {"rounds": 0})  # who retries it by hand means a new start
        return Dead(payload.splice(raw, changes, drop=("at",)))

    def _warn(self, need: str, queue: str) -> None:
        if need not in self._warned_of and len(self._warned_of) < MOST_REMEMBERED:
            self._warned_of.add(need)
            log.warning(
                "queue %s: a job needs %s, which this release (%s) does not know: it is not run here and goes back for "
                "a newer worker; said once for each need", queue, need, __version__
            )  # fmt: skip


def _pause_s(rounds: int) -> float:
    pause_s: float = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**rounds)
    return pause_s * random.uniform(0.9, 1.1)  # many such jobs must not come back in one moment


@dataclass(frozen=True, slots=True)
class WorkerEntry:
    """What a live process told of itself with its last beat. One of 0.1.0 tells neither version nor features."""

    identity: str
    queues: Collection[str]
    version: str = ""
    speaks: Collection[str] = ()

    def __str__(self) -> str:
        return f"{self.identity} (version {self.version})" if self.version else f"{self.identity} (before 0.2.0)"


class Workers:
    """What the live workers speak, for a producer whose job needs something. Safe to share between threads: two that
    look at the same time look twice."""

    def __init__(self, ask: Callable[[], Sequence[WorkerEntry]]) -> None:
        self._ask = ask
        self._seen: tuple[float, Sequence[WorkerEntry]] = (0.0, ())  # until when, on the monotonic clock
        self._warned_of: set[str] = set()
        self._lock = threading.Lock()

    def check(self, queue: str, needs: Collection[str]) -> None:
        """Raises ArgumentError when no live worker of the queue speaks them all; warns once while some do not."""
        try:
            workers = [worker for worker in self._look() if queue in worker.queues]
        except BrokerRefused as error:
            self._warn("", f"cannot see whether the workers know {_list(needs)}: {error}; pushed all the same")
            return
        lacking = [worker for worker in workers if not set(needs) <= set(worker.speaks)]
        if not workers:
            self._warn(queue, f"nobody works queue {queue} now; a job there needs workers that know {_list(needs)}")
        elif len(lacking) == len(workers):
            raise ArgumentError(
                f"no live worker of queue {queue} knows {_list(needs)}: {_list(map(str, lacking))}; "
                "upgrade the workers first"
            )
        elif lacking:
            self._warn(
                queue,
                f"some workers of queue {queue} do not know {_list(needs)}: {_list(map(str, lacking))}; "
                "those of 0.2.0 and later leave such jobs to others, an older one runs them without it",
            )

    def _look(self) -> Sequence[WorkerEntry]:
        until, seen = self._seen
        if time.monotonic() >= until:
            seen = self._ask()
            self._seen = (time.monotonic() + LOOK_EVERY_S, seen)
        return seen

    def _warn(self, about: str, text: str) -> None:
        with self._lock:
            if about in self._warned_of or len(self._warned_of) >= MOST_REMEMBERED:
                return
            self._warned_of.add(about)
        log.warning("%s", text)


def _list(words: Any) -> str:
    words = sorted(words)
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")
