"""The state of one job as people see it, from its record or from a place where the job was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import simplejson

from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.escaping import one_json_line
from goworkers_py.core.job_state import JobState, StateWord
from goworkers_py.core.values import dataclass
from goworkers_py.wire.job_record import JobRecord, Move, Progress
from goworkers_py.wire.message import Message, epoch
from goworkers_py.wire.payload import encodable
from goworkers_py.wire.stored_job import StoredJob

# The sets of jobs that wait for a time, or for people.
PLACES: dict[str, JobState] = {
    "scheduled": JobState.SCHEDULED,
    "retry": JobState.RETRY,
    "dead": JobState.DEAD,
}


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Where a job is. Fields that do not apply, or that nobody knows, are empty."""

    jid: str
    state: StateWord  # such as "waiting", see docs/job-states.md
    verified: bool  # the job was seen there; False: last known, or not found in a bounded search
    tracked: bool  # it has a record; without one it was searched for
    job_class: str = ""
    queue: str = ""
    place: int | None = None  # waiting: about how many jobs are before it
    since: float | None = None  # when it came into this state, in epoch seconds
    due: float | None = None  # scheduled, retry: when it will run, in epoch seconds
    group: str = ""  # grouped: the name of the group
    line: str = ""  # waiting: the line of a limit in which it waits
    owner: str = ""  # running, or fetched: the identity of the process
    error_class: str = ""  # that of the last failure, and its message
    error_message: str = ""
    progress: Progress | None = None  # what the job told last
    has_result: bool = False  # `workers.result(jid)` returns it
    timeline: Sequence[Move] = ()  # its former states, the oldest first
    absent: bool = False  # every place was searched to its end, and the job is in none

    def as_dict(self) -> dict[str, Any]:
        """The fields by their names, those of `progress` and `timeline` too."""
        return asdict(self)

    @property
    def as_json(self) -> str:
        """The same as `as_dict`, as one line of JSON: what `pyworkers job show JID --json` prints."""
        return one_json_line(simplejson.dumps(self.as_dict()))


def check_jid(jid: object) -> None:
    if not isinstance(jid, str) or not jid or not encodable(jid):
        why = " (a push returns None when a client middleware stops it)" if jid is None else ""
        raise ArgumentError(f"a jid is a text, not {jid!r}{why}")


def as_recorded(record: JobRecord) -> JobStatus:
    return JobStatus(
        jid=record.jid,
        state=record.state,
        verified=False,
        tracked=True,
        job_class=record.job_class,
        queue=record.queue,
        since=record.at,
        due=float(record.due) if record.due and record.state in ("scheduled", "retry") else None,
        group=record.group if record.state == "grouped" else "",
        owner=record.owner,
        error_class=record.error_class,
        error_message=record.error_message,
        progress=record.progress,
        has_result=record.result is not None,
        timeline=record.timeline,
    )


def as_seen(job: StoredJob, state: StateWord, queue: str = "") -> JobStatus:
    message = job.message
    fields = message.fields if message is not None else {}

    def text(name: str) -> str:
        value = fields.get(name)
        return value if isinstance(value, str) else ""

    return JobStatus(
        jid=job.jid,
        state=state,
        verified=True,
        tracked=False,
        job_class=message.job_class if message is not None else "",
        queue=queue or text("queue"),
        since=(message.enqueued_at if state == "waiting" and message is not None else None),
        due=job.at if state in ("scheduled", "retry") else None,
        line=job.line if state == "waiting" else "",
        error_class=text("error_class"),
        error_message=text("error_message"),
        timeline=[] if message is None else _past(message, job.at if state in PLACES else None, state),
    )


def _past(message: Message, at: float | None, state: str) -> list[Move]:
    """The moves of a job without a record, as its payload tells them."""
    error = message.get("error_class")
    failed = f"failed: {error}" if isinstance(error, str) else "failed"
    steps = [
        ("created", message.created_at, "of the payload"),
        ("waiting", message.enqueued_at, "of the payload"),
        ("retry", message.failed_at, "first failure"),
        ("retry", epoch(message.get("retried_at")), failed),
        ("dead", at if state == "dead" else None, failed),
    ]
    moves = [Move(word, when, reason) for word, when, reason in steps if when is not None]
    return sorted(moves, key=lambda move: move.at)
