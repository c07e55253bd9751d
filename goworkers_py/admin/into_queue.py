"""Moves a job that waits in a queue into another one."""

from __future__ import annotations

from goworkers_py.brokers.contracts.admin import Change, Place
from goworkers_py.config.option_values import is_name
from goworkers_py.core.errors import ArgumentError, UnreadablePayload
from goworkers_py.core.job_state import JobState
from goworkers_py.wire import payload
from goworkers_py.wire.stored_job import StoredJob


def check_queues(queue: str, to: str) -> None:
    if not is_name(to):
        raise ArgumentError(f"{to!r} is not a queue's name: give a text that is not empty")
    if queue == to:
        raise ArgumentError(f"the jobs are in queue {to} already: give the name of another one")


def into_queue(job: StoredJob, queue: str, now: float) -> Change:
    """It comes into the queue now, so that the jobs of a queue stay in the order of their times. Raises
    UnreadablePayload for what no worker of another queue could read."""
    if job.message is None:
        raise UnreadablePayload(f"not moved: jid {job.jid}: its payload is not a job; delete it, or leave it")
    moved = payload.splice(job.payload, {"queue": queue, "enqueued_at": now})
    return Change(job, Place(JobState.WAITING, queue), moved)
