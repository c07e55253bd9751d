"""Moves the jobs of dead owners out of their in-progress lists."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from goworkers_py.brokers.contracts.recoverable import FoundJob, Judge, Recovered
from goworkers_py.brokers.contracts.transport import Settled
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.fleet.owner_entry import OwnerEntry
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.queues.settlement import Item, RedisSettlement, SettleTarget
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.policy.deaths import Life, died_together
from goworkers_py.policy.poison import RecoveryDecision

log = logging.getLogger(__name__)

RECOVERED_AT_ONCE = 100


class Recovery:
    def __init__(self, connections: Connections, keys: Keys, settlement: RedisSettlement) -> None:
        self._connections = connections
        self._keys = keys
        self._settlement = settlement

    def move_all(self, dead: Mapping[str, OwnerEntry], judge: Judge) -> Iterator[Recovered]:
        places = [(owner, queue) for owner, entry in dead.items() for queue in entry.queues]
        lists = [("LLEN", self._keys.inprogress(queue, owner)) for owner, queue in places]
        for (owner, queue), length in zip(places, self._connections.answers(lists), strict=True):
            if length is None:
                log.error(
                    "jobs of %s in queue %s cannot be recovered: their key %s is no list; rename or delete it",
                    owner, queue, self._keys.inprogress(queue, owner),
                )  # fmt: skip
            elif length:
                yield from self._move(owner, queue, dead[owner], judge)

    def _move(self, owner: str, queue: str, entry: OwnerEntry, judge: Judge) -> Iterator[Recovered]:
        """Oldest first, each job only if it is still in its list: another process may recover the same jobs. Jobs that
        cannot be moved stay the oldest of the list, and hold up none behind them."""
        key, mover = self._keys.inprogress(queue, owner), machine.token_hex(6)
        numbers, stay, error = itertools.count(), 0, ""
        for step in itertools.count():
            listed = self._connections.call("LRANGE", key, -stay - RECOVERED_AT_ONCE, -stay - 1)
            if not listed:
                break
            # A process begins jobs in the order in which it fetched them, so only the oldest can have been begun.
            begun = max(0, entry.queues[queue] - step * RECOVERED_AT_ONCE)
            found = [
                FoundJob(queue, owner, payload, position < begun, entry.alone)
                for position, payload in enumerate(reversed(listed))
            ]
            jobs = [Recovered(queue, owner, job.payload, judge(job)) for job in found]
            not_moved = self._settle(mover, numbers, jobs)
            yield from [job for at, job in enumerate(jobs) if at not in not_moved]
            errors = [result for result in not_moved.values() if isinstance(result, str)]
            stay, error = stay + len(errors), error or next(iter(errors), "")
        if stay:
            log.error("jobs of %s in queue %s cannot be recovered: %s jobs=%d", owner, queue, error, stay)

    def _settle(self, mover: str, numbers: Iterator[int], jobs: Sequence[Recovered]) -> dict[int, Settled]:
        """The results of those that were not moved. A step that is refused as a whole is done in halves, down to the
        job that is to blame."""
        items = [Item(job.queue, job.owner, job.payload, _target(job.decision), job.decision.effects) for job in jobs]
        try:
            return self._settlement.settle(mover, next(numbers), (), items)
        except BrokerUnavailable:
            raise
        except Exception as error:
            if len(jobs) == 1:
                return {0: str(error)}
        middle = len(jobs) // 2
        not_moved = self._settle(mover, numbers, jobs[:middle])
        behind = self._settle(mover, numbers, jobs[middle:])
        return not_moved | {middle + at: result for at, result in behind.items()}


def _target(decision: RecoveryDecision) -> SettleTarget:
    return SettleTarget("dead" if decision.error else "back", decision.payload, line=decision.queue)


def without_conviction_where_several_died(
    died_at: Mapping[str, float], entries: Mapping[str, OwnerEntry], now: float
) -> dict[str, OwnerEntry]:
    """The entries of the dead owners. `alone` is emptied for owners that died together with another one: their deaths
    prove nothing about their suspects."""
    lives = {
        owner: Life(entry.origin.get("machine", ""), entry.began, entry.heard, died_at.get(owner))
        for owner, entry in entries.items()
    }
    return {
        owner: replace(entry, alone="")
        if entry.alone and any(died_together(lives[owner], lives[other], now) for other in entries if other != owner)
        else entry
        for owner, entry in entries.items()
        if owner in died_at
    }
