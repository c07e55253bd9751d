"""The runs of jobs of Ruby with an echo, or with a lock of sidekiq-unique-jobs that is freed here, see `end`."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping

from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, WorkersError
from goworkers_py.core.outcome import DONE, REQUEUE_LAST, Dead, Done, Outcome
from goworkers_py.features.for_ruby.contract import RubyLocks
from goworkers_py.features.for_ruby.end import ForRuby
from goworkers_py.features.for_ruby.lock import RubyLock
from goworkers_py.features.in_process import InProcess, WorkerProcess
from goworkers_py.links.chain import Run
from goworkers_py.runtime.running.rungs import Rung, refused, rescheduled
from goworkers_py.wire import payload
from goworkers_py.wire.failure import failure_fields
from goworkers_py.wire.message import Message, Timestamps

log = logging.getLogger("goworkers_py.job")

# A job that does not begin, because another job holds its lock, is tried again after so long.
RESCHEDULED_S = 5


class RubyRuns(InProcess):
    def __init__(self, process: WorkerProcess, policy: ForRuby) -> None:
        self._policy = policy
        self._locks = process.broker.part(RubyLocks)
        self._timestamps = Timestamps(process.plan.config.timestamps)
        self._wall = process.shared.clock.wall

    def rungs(self) -> Mapping[str, Rung]:
        rung = Rung(self._run, fields=self._policy.fields, of_stand_ins=False)
        return {"ruby lock": rung}

    def ended(self, message: Message, outcome: Outcome) -> Outcome:
        effects = self._policy.of_run(message, outcome)
        if not effects:
            return outcome
        if outcome is DONE:
            return Done(effects=effects)
        return dataclasses.replace(outcome, effects=(*outcome.effects, *effects))

    def _run(self, run: Run, message: Message) -> Outcome:
        return self._begin(message) or run(message)

    def _begin(self, message: Message) -> Outcome | None:
        """The outcome of a job that must not begin now; None for any other job."""
        lock = self._policy.lock_of(message.fields)
        if lock is None or self._locks is None or not (lock.freed_at_start or lock.needed):
            return None
        try:
            if self._locks.begin(lock):
                return None
        except BrokerUnavailable:
            return REQUEUE_LAST
        except BrokerRefused as error:
            return refused(message, f"its lock of Ruby cannot be changed: {error}", self._wall())
        return self._buried(message, lock) if lock.rejects else self._after(message, lock)

    def _after(self, message: Message, lock: RubyLock) -> Outcome:
        log.info("rescheduled: another job holds the lock %s", lock.needed)
        return rescheduled(message, self._wall() + RESCHEDULED_S * machine.random.uniform(0.9, 1.1))

    def _buried(self, message: Message, lock: RubyLock) -> Outcome:
        error = WorkersError(f"another job runs and holds the lock {lock.needed}")
        log.error("moved to the dead set: %s", error)
        changes = failure_fields(message, error, self._timestamps.write(self._wall()))
        return Dead(payload.splice(message.raw, changes, drop=("at",)))
