"""The places in which jobs wait, as people name them."""

from __future__ import annotations

from goworkers_py.brokers.contracts.admin import Place
from goworkers_py.core.errors import ArgumentError
from goworkers_py.core.job_state import JobState

SCHEDULED, PARKED = Place(JobState.SCHEDULED), Place(JobState.PARKED)
OUTBOX, RETRIES, DEAD = Place(JobState.OUTBOX), Place(JobState.RETRY), Place(JobState.DEAD)

# The jobs of these places have a time, and are in the order of it.
TIMED = (SCHEDULED, RETRIES, DEAD)


def waiting_in(queue: str) -> Place:
    """The place of the jobs that wait in a queue."""
    return Place(JobState.WAITING, queue)


def refuse_queue(place: Place) -> None:
    if place.state is JobState.WAITING:
        raise ArgumentError("jobs that wait in a queue can only be deleted, or moved into another queue")
    if place.state is JobState.OUTBOX:
        raise ArgumentError("pushes in the outbox can only be deleted: they go to another broker")
