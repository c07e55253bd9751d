"""What sidekiq-status shows of a job that killed its processes. Of any other end it is shown by the run, see `run`."""

from __future__ import annotations

from goworkers_py.brokers.contracts.recoverable import FoundJob
from goworkers_py.core.effect import Effect
from goworkers_py.features.ruby_status.effects import ShowStatus
from goworkers_py.features.tracking.record import job_in
from goworkers_py.policy.registry import Registry
from goworkers_py.wire.message import Message


class BuriedStatuses:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def recovered(self, found: FoundJob, error: BaseException | None) -> tuple[Effect, ...]:
        job = None if error is None else job_in(found.payload)
        if job is None or not self._registry.options_for(Message(found.payload, found.queue)).get("sidekiq_status"):
            return ()
        return (ShowStatus(job.jid, "failed"),)
