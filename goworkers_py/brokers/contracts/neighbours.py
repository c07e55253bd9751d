"""Other programs of a Sidekiq fleet: their jobs, processes and marks. Only a broker that they share has this part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from goworkers_py.brokers.contracts.fleet import Leftover


class Neighbours(Protocol):
    """Raises BrokerUnavailable and BrokerRefused. Each verb may be called again."""

    def leftovers(self) -> list[Leftover]:
        """Returns the jobs that are in progress under processes of go-workers, whether these live or not."""

    def take_over(self, process: str) -> Iterator[int]:
        """Moves the jobs in progress under a process of go-workers to the back of their queues.

        The work is done while the caller iterates: each step yields the number of jobs that it moved. Call it only for
        a process that has ended: a living one would run the same jobs.
        """

    def lives(self, process: str) -> bool:
        """True when that process of go-workers is known to live; False also when nothing is known."""

    def mark_deploy(self, label: str, at: float) -> str | None:
        """Marks the minute of `at` (epoch seconds) on Sidekiq's Metrics page with `label`.

        Returns None when this call made the mark. Otherwise the minute keeps its mark, or another process of the same
        deploy has just made one: the result is the label of that mark.
        """
