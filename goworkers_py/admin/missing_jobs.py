"""Tells which of many jobs are in no place any more, in one search. `features.unique.holders` asks for one job, in
fewer reads."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

from goworkers_py.admin.job_lookup import BETWEEN_LOOKS_S, MOST_SEARCHED
from goworkers_py.admin.places import PARKED, RETRIES, SCHEDULED, waiting_in
from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.brokers.contracts.admin import Admin, Place
from goworkers_py.core import machine
from goworkers_py.wire.stored_job import StoredJob


class MissingJobs:
    """Threads share it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def among(self, jids: Collection[str], parked: bool) -> set[str]:
        """The jobs that are neither waiting, in progress, scheduled nor to be retried; `parked`: nor parked. Dead jobs
        are missing. Empty when a place holds more jobs than a search looks at. A job that another program moves is in
        no place for a moment, so each job is looked for twice."""
        if not jids or Capability.ADMIN not in self._broker.capabilities:
            return set()
        missing = self._unseen(set(jids), parked, self._broker.admin)
        if missing:
            machine.Event().wait(BETWEEN_LOOKS_S)
            missing = self._unseen(missing, parked, self._broker.admin)
        return missing

    def _unseen(self, jids: set[str], parked: bool, admin: Admin) -> set[str]:
        for jobs in all_jobs(admin, parked):
            looked_at = [*itertools.islice(jobs, MOST_SEARCHED + 1)]
            jids = jids.difference(job.jid for job in looked_at)
            if not jids or len(looked_at) > MOST_SEARCHED:
                return set()
        return jids


def all_jobs(admin: Admin, parked: bool) -> Iterator[Iterator[StoredJob]]:
    """The jobs of each place but the dead ones, place by place."""
    yield from _in_queues(admin)  # most are there
    # In the order in which a job moves, so that one that moves meanwhile is not missed.
    yield jobs_in(admin, SCHEDULED)
    yield jobs_in(admin, RETRIES)
    if parked:
        yield jobs_in(admin, PARKED)
    yield from _in_queues(admin)
    yield (run.job for run in admin.running())  # Sidekiq's processes hold their jobs nowhere else


def _in_queues(admin: Admin) -> Iterator[Iterator[StoredJob]]:
    """With those in progress: a job that fails may have come back before the look at its queue."""
    yield (held.job for held in admin.in_progress())
    for queue in admin.queues():
        yield jobs_in(admin, waiting_in(queue.name))
    yield (held.job for held in admin.in_progress())


def jobs_in(admin: Admin, place: Place) -> Iterator[StoredJob]:
    return itertools.chain.from_iterable(admin.jobs_in(place).pages())
