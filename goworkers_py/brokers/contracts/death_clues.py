"""Clues: proof that a process has died while it ran a job, for a broker that delivers jobs again by itself.

Such a broker knows no leases, and nobody recovers the jobs of a dead process. So nothing tells whether a process died
in a run, or had only fetched the job, or has lost its connection. A process therefore leaves a clue before a run, and
takes it back after it, whatever the outcome. A clue that still stands when the job comes again tells of a death.

Each run costs some exchanges then. So the broker names in `Delivery.clue_name` only the jobs that came again and again.

There are two kinds. The clues of all runs are counted, and make the job a suspect. The clue of a run alone proves that
the job caused the death, see `policy.poison` and `runtime.running.runs_with_clues`. Both go away by themselves after
`config.poison_window`.

The verbs raise BrokerUnavailable and BrokerRefused, and may be called again after that. Threads share it.
"""

from __future__ import annotations

from typing import Protocol

from goworkers_py.core.delivery import Delivery


class DeathClues(Protocol):
    def runs(self, name: str) -> int:
        """Returns how many clues of runs stand for the job of this name."""

    def ran_alone(self, name: str) -> bool:
        """Whether the clue of a run alone stands for it."""

    def leave(self, name: str) -> None:
        """Adds the clue of a run. Returns when it is as safe as a job is."""

    def leave_alone(self, name: str) -> None:
        """The same for a run alone."""

    def take_back_alone(self, name: str) -> None:
        """Removes the clue of a run alone, if it stands."""

    def clear(self, name: str) -> None:
        """Removes all clues of this name: a process has survived a run of the job, so the others prove nothing."""

    def is_ours(self, delivery: Delivery) -> bool:
        """False when the broker has certainly given the delivery to another process. Asks no server."""
