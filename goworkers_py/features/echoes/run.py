"""Jobs of Ruby with an echo, or with a lock of sidekiq-unique-jobs that is freed here, see `for_ruby`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.brokers.contracts.neighbours import Neighbours
from goworkers_py.core import machine
from goworkers_py.core.effect import Effect
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, WorkersError
from goworkers_py.core.outcome import REQUEUE_LAST, Dead, Outcome, Reschedule
from goworkers_py.features.echoes.for_ruby import ForRuby
from goworkers_py.features.ruby_locks.payload import RubyLock
from goworkers_py.wire import payload
from goworkers_py.wire.failure import failure_fields
from goworkers_py.wire.message import Message, Timestamps

log = logging.getLogger("goworkers_py.job")

# A job that does not begin is tried again after so long: because another job holds its lock, or the broker refuses.
RESCHEDULED_S, REFUSED_S = 5, 60.0


class RubyJobs:
    """Shared by all workers of a process."""

    def __init__(
        self, policy: ForRuby, neighbours: Neighbours | None, timestamps: Timestamps, wall: Callable[[], float]
    ) -> None:
        self._policy = policy
        self._neighbours = neighbours
        self._timestamps = timestamps
        self._wall = wall

    def marked(self, fields: Mapping[str, Any]) -> bool:
        return self._policy.marked(fields)

    def ended(self, message: Message, outcome: Outcome) -> tuple[Effect, ...]:
        return self._policy.of_run(message, outcome)

    def begin(self, message: Message) -> Outcome | None:
        """The outcome of a job that must not begin now; None for any other job."""
        lock = self._policy.lock_of(message.fields)
        if lock is None or self._neighbours is None or not (lock.freed_at_start or lock.needed):
            return None
        try:
            if self._neighbours.begin_lock(lock):
                return None
        except BrokerUnavailable:
            return REQUEUE_LAST
        except BrokerRefused as error:
            log.error("not begun, tried again in %g s: its lock of Ruby cannot be changed: %s", REFUSED_S, error)
            return self._rescheduled(message, self._wall() + REFUSED_S)
        return self._buried(message, lock) if lock.rejects else self._after(message, lock)

    def _after(self, message: Message, lock: RubyLock) -> Outcome:
        log.info("rescheduled: another job holds the lock %s", lock.needed)
        return self._rescheduled(message, self._wall() + RESCHEDULED_S * machine.random.uniform(0.9, 1.1))

    def _buried(self, message: Message, lock: RubyLock) -> Outcome:
        error = WorkersError(f"another job runs and holds the lock {lock.needed}")
        log.error("moved to the dead set: %s", error)
        changes = failure_fields(message, error, self._timestamps.write(self._wall()))
        return Dead(payload.splice(message.raw, changes, drop=("at",)))

    def _rescheduled(self, message: Message, at: float) -> Outcome:
        return Reschedule(at, payload.splice(message.raw, {"queue": message.queue}, drop=("at",)))
