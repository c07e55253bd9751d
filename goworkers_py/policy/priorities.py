"""Priorities: from which queues of a pool the next jobs are fetched, and which of the fetched jobs begin first.

A fetch is a list of asks, in order: a queue, and how many of its jobs at most. The broker takes jobs ask by ask, until
it has as many as the fetch may bring. A queue may be asked twice: first for its share, then for what others left.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Protocol

from goworkers_py.core.delivery import Delivery

Ask = tuple[str, int]


class Priorities(Protocol):
    """Used by the fetcher's thread only."""

    def asks(self, queues: Collection[str], limit: int) -> list[Ask]:
        """The asks that bring `limit` jobs of `queues`, which are those of the pool that are not paused."""

    def note(self, taken: Iterable[str]) -> None:
        """The fetch of the last `asks` is done. `taken` has the queue of each job that it brought."""

    def rank(self, queue: str) -> int:
        """Jobs of a lower rank begin before all others that wait in this process."""

    def in_turn(self, fetched: list[Delivery]) -> list[Delivery]:
        """The jobs of one fetch, in the order in which they are to begin."""


class StrictOrder:
    """While a queue has jobs, none of a later queue is fetched. The rank of a queue is its place."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._ranks = {queue: rank for rank, queue in enumerate(queues)}

    def asks(self, queues: Collection[str], limit: int) -> list[Ask]:
        return [(queue, limit) for queue in self._ranks if queue in queues]

    def note(self, taken: Iterable[str]) -> None:
        pass

    def rank(self, queue: str) -> int:
        return self._ranks[queue]

    def in_turn(self, fetched: list[Delivery]) -> list[Delivery]:
        return sorted(fetched, key=lambda delivery: self._ranks[delivery.queue])


class Weights:
    """Each queue gets its share of the jobs, by its weight among the queues that have jobs.

    A queue has credit: how many jobs it should have had until now, less those that it had. A fetch gives each queue its
    share and its credit in whole jobs, and the rest is carried on. So the shares are right over several fetches, also
    when each of them brings one job. A queue that has fewer jobs than its part loses its credit. The other queues get
    those jobs, the one with the most credit first. The credits of all queues add up to zero.
    """

    def __init__(self, weights: dict[str, int]) -> None:
        self._weights = weights
        self._credit = dict.fromkeys(weights, 0.0)
        self._parts: dict[str, int] = {}  # of the last `asks`

    def asks(self, queues: Collection[str], limit: int) -> list[Ask]:
        self._forget([queue for queue in self._weights if queue not in queues])
        total = sum(self._weights[queue] for queue in queues)
        due = {
            queue: self._credit[queue] + limit * weight / total
            for queue, weight in self._weights.items()
            if queue in queues
        }
        self._parts = parts = _in_whole_jobs(due, limit)
        by_need = sorted(due, key=lambda queue: parts[queue] - due[queue])
        return [*((queue, part) for queue, part in parts.items() if part), *((queue, limit) for queue in by_need)]

    def note(self, taken: Iterable[str]) -> None:
        counts = Counter(taken)
        lacking = [queue for queue, part in self._parts.items() if counts[queue] < part]
        # The queues with jobs share all jobs that were taken, without those of the lacking queues.
        to_share = counts.total() - sum(counts[queue] for queue in lacking)
        having = [queue for queue in self._parts if queue not in lacking]
        total = sum(self._weights[queue] for queue in having)
        for queue in having:
            self._credit[queue] += to_share * self._weights[queue] / total - counts[queue]
        self._forget(lacking)

    def _forget(self, queues: Collection[str]) -> None:
        """Takes the credit of these queues away, and as much debt from the queues that were given too much for it; or
        the other way round. So all credits add up to zero again."""
        lost = sum(self._credit[queue] for queue in queues)
        self._credit |= dict.fromkeys(queues, 0.0)
        against = [queue for queue, credit in self._credit.items() if credit * lost < 0]
        owed = sum(self._credit[queue] for queue in against)
        for queue in against:
            self._credit[queue] *= max(0.0, 1 + lost / owed)

    def rank(self, queue: str) -> int:
        return 0

    def in_turn(self, fetched: list[Delivery]) -> list[Delivery]:
        """The jobs of each queue are spread evenly: else a queue of long jobs would have all threads for a while."""
        by_queue: defaultdict[str, list[Delivery]] = defaultdict(list)
        for delivery in fetched:
            by_queue[delivery.queue].append(delivery)
        one_after_the_other = [*chain.from_iterable(by_queue.values())]
        return [one_after_the_other[place] for place in _spread(*map(len, by_queue.values()))]


@lru_cache(maxsize=100)  # full fetches bring the same counts again and again
def _spread(*counts: int) -> list[int]:
    """The places of jobs that stand queue by queue, in an order in which those of each queue are spread evenly."""
    turns = [(place + 0.5) / count for count in counts for place in range(count)]
    return sorted(range(len(turns)), key=turns.__getitem__)


def _in_whole_jobs(due: dict[str, float], limit: int) -> dict[str, int]:
    """Shares out exactly `limit` jobs. Rounds down, then gives what is left to those that lost most by the rounding."""
    parts, left = dict.fromkeys(due, 0), limit
    for queue in sorted(due, key=due.__getitem__, reverse=True):  # a queue may have had far too much, others too little
        parts[queue] = min(left, max(0, int(due[queue])))
        left -= parts[queue]
    for queue in sorted(due, key=lambda queue: parts[queue] - due[queue])[:left]:
        parts[queue] += 1
    return parts


def priorities_of(queues: Sequence[str], weights: Sequence[int]) -> Priorities:
    return Weights(dict(zip(queues, weights, strict=True))) if weights else StrictOrder(queues)
