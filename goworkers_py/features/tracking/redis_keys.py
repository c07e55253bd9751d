"""The records of tracked jobs among the keys of one call of a script that moves jobs."""

from __future__ import annotations

from collections.abc import Callable

from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.features.tracking.effects import Tracked
from goworkers_py.features.tracking.record import ENDED_S, LIVE_S, job_in


class RecordKeys:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._numbers: dict[str, int] = {}

    def number(self, payload: bytes, may_be_tracked: Callable[[bytes], Tracked | None] = job_in) -> int:
        """The number of the record of this job among `names`, from 1 on; 0 for a job that is not tracked. A script asks
        whether the job has a record."""
        job = may_be_tracked(payload)
        return 0 if job is None else self._numbers.setdefault(self._keys.record(job.jid), len(self._numbers) + 1)

    @property
    def names(self) -> list[str]:
        return list(self._numbers)


def lives(dead_limits: tuple[int, float]) -> tuple[int, int, int]:
    """How long the record lives of a job that moves on, of one that is killed, and of one that is deleted."""
    return LIVE_S, max(1, int(dead_limits[1])), ENDED_S
