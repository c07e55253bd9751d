"""The keys and arguments that jobs need, which a script moves without a run, for their records and their effects."""

from __future__ import annotations

from goworkers_py.brokers.redis.driver.exchange import Argument
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.effects import encode
from goworkers_py.core import machine
from goworkers_py.core.job_state import StateWord
from goworkers_py.features.tracking.redis import RecordKeys
from goworkers_py.policy.consequences import moved
from goworkers_py.policy.for_ruby import ForRuby


class MovedJobs:
    """For one call of a script. The keys of the effects come after those of the records."""

    def __init__(self, keys: Keys, ruby: ForRuby | None = None) -> None:
        """`ruby`: for jobs that have not ended before."""
        self._keys = keys
        self._records = RecordKeys(keys)
        self._numbers: dict[str, int] = {}
        self._ruby = ruby
        self._now = machine.time()

    def record(self, payload: bytes) -> int:
        """The number of the record of this job; 0 for a job that has none."""
        return self._records.number(payload)

    def effects(self, payload: bytes, state: StateWord, due: float | None = None) -> list[Argument]:
        """How many arguments the effects of this move have, and these."""
        effects = moved(payload, state, due, self._now)
        if self._ruby is not None:
            effects += self._ruby.of_move(payload, state)
        encoded = [*encode(effects, self._keys, self._number_of, self._now)] if effects else []
        return [len(encoded), *encoded]

    def _number_of(self, key: str) -> int:
        return self._numbers.setdefault(key, len(self._numbers) + 1)

    @property
    def records(self) -> int:
        return len(self._records.names)

    def index(self, deletes: bool = True) -> int:
        """The number of the index of cancelled jobs among the keys of the effects; 0 where it is not needed."""
        return self._number_of(self._keys.ended("cancelled")) if deletes and self.records else 0

    @property
    def names(self) -> list[str]:
        return [*self._records.names, *self._numbers]
