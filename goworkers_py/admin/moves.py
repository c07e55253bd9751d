"""Moves of jobs by hand: back into their queues by Sidekiq's rules, or into another queue."""

from __future__ import annotations

from goworkers_py.brokers.contracts.admin import Change, Place
from goworkers_py.core.errors import ArgumentError, UnreadablePayload
from goworkers_py.core.job_state import JobState
from goworkers_py.policy.lines import owner_of
from goworkers_py.wire import payload
from goworkers_py.wire.message import jid_where_missing
from goworkers_py.wire.payload import is_name
from goworkers_py.wire.stored_job import StoredJob


def retry_now(job: StoredJob, now: float) -> Change:
    """Puts a scheduled, parked, retried or dead job back into its queue.

    Lowers `retry_count` by one, so that the job has as many retries left as before, and keeps the error's fields.
    If the stored job only encloses another payload as text (see `enclosure`), the enclosed payload goes back. Raises
    UnreadablePayload for a job that cannot go back, or waits in the line of a feature: it would lose its turn there."""
    if (owner := owner_of(job.line)) is not None:
        raise UnreadablePayload(
            f"not retried: jid {job.jid}: it waits for {owner.name}; `{owner.command}` tells who has the place"
        )
    inner = job if job.original is None else StoredJob(job.original, at=job.at)
    message = inner.message
    if message is None:
        raise UnreadablePayload(f"not retried: jid {job.jid}: its payload is not a job; delete it, or leave it")
    queue = job.queue or message.get("queue") or "default"
    if not isinstance(queue, str) or not payload.encodable(queue):
        raise UnreadablePayload(f"not retried: jid {job.jid}: its field queue is not a queue's name")
    changes: dict[str, object] = {"enqueued_at": now, "queue": queue}
    if message.retry_count is not None:
        changes["retry_count"] = message.retry_count - 1
    changes |= jid_where_missing(message)
    # Without the field `at`: Sidekiq would put a job that has it among the scheduled jobs.
    return Change(job, Place(JobState.WAITING, queue), payload.splice(inner.payload, changes, drop=("at",)))


def check_queues(queue: str, to: str) -> None:
    if not is_name(to):
        raise ArgumentError(f"{to!r} is not a queue's name: give a text that is not empty")
    if queue == to:
        raise ArgumentError(f"the jobs are in queue {to} already: give the name of another one")


def into_queue(job: StoredJob, queue: str, now: float) -> Change:
    """Moves a job into another queue. It comes there now, so that the jobs of a queue stay in the order of their
    times. Raises UnreadablePayload for a payload that no worker could read."""
    if job.message is None:
        raise UnreadablePayload(f"not moved: jid {job.jid}: its payload is not a job; delete it, or leave it")
    moved = payload.splice(job.payload, {"queue": queue, "enqueued_at": now})
    return Change(job, Place(JobState.WAITING, queue), moved)
