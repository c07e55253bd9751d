"""The keys and arguments of the effects of jobs that a script moves without a run."""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.brokers.redis.driver.exchange import Argument
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import RedisMoved, moves
from goworkers_py.brokers.redis.queues.effects import encode
from goworkers_py.core import machine
from goworkers_py.core.job_state import StateWord
from goworkers_py.features.parts import FollowMove
from goworkers_py.policy.consequences import moved


class MovedJobs:
    """For one call of a script."""

    def __init__(self, keys: Keys, dead_life_s: float = 0.0, follow: Sequence[FollowMove] = ()) -> None:
        """`follow`: of features, for jobs that have not ended before."""
        self._keys = keys
        self._dead_life_s = dead_life_s
        self._numbers: dict[str, int] = {}
        self._follow = follow
        self._now = machine.time()

    def effects(
        self,
        payload: bytes,
        state: StateWord,
        reason: str,
        queue: str = "",
        due: float | None = None,
        may_be_dead: bool = False,
    ) -> list[Argument]:
        """How many arguments the effects of this move have, and these."""
        encoded = self._noted(payload, state, reason, queue, due, may_be_dead)
        # The counts of batches and chains last: should an effect be refused after all, the job goes back, and none of
        # them is done.
        following = [effect for follow in self._follow for effect in follow(payload, state)]
        effects = (*following, *moved(payload, state, due, self._now))
        if effects:
            encoded += encode(effects, self._keys, self._number_of, self._now)
        return [len(encoded), *encoded]

    def notes(self, payload: bytes, reason: str, queue: str, may_be_dead: bool = False) -> list[Argument]:
        """The same for a job that waits as before, in this queue."""
        encoded = self._noted(payload, "waiting", reason, queue, None, may_be_dead)
        return [len(encoded), *encoded]

    def _noted(
        self, payload: bytes, state: StateWord, reason: str, queue: str, due: float | None, may_be_dead: bool
    ) -> list[Argument]:
        move = RedisMoved(payload, state, reason, queue, due, self._dead_life_s, self._now, may_be_dead)
        return [word for note in moves() for word in note(move, self._keys, self._number_of)]

    def _number_of(self, key: str) -> int:
        return self._numbers.setdefault(key, len(self._numbers) + 1)

    @property
    def names(self) -> list[str]:
        return list(self._numbers)
