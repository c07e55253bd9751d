"""A process, as a memory broker knows it: its lease, its jobs in progress, and how it shows itself."""

from __future__ import annotations

from dataclasses import field

from goworkers_py.brokers.contracts.fleet import Process, Running
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.core.command import Command
from goworkers_py.core.values import dataclass


@dataclass(slots=True)
class Shown:
    """A process as it shows itself to the fleet, and the commands that wait for it, each with its time."""

    process: Process
    running: list[Running]
    asked: list[tuple[float, Command]] = field(default_factory=list)


@dataclass(slots=True)
class LeaseRecord:
    """An identity: its lease, the jobs in progress under it, and the process as it shows itself."""

    presence: Presence  # as told in the last beat
    began: float  # time of the first beat
    heard: float = 0.0  # time of the last beat
    expires_at: float = 0.0
    beats: int = 0
    died_at: float | None = None  # when the identity was declared dead
    # Payloads by queue and receipt, the oldest first. The receipt is the number that the job had in its queue.
    in_progress: dict[str, dict[int, bytes]] = field(default_factory=dict)
    shown: Shown | None = None

    @property
    def proof(self) -> str:
        return str(self.beats)

    def is_alive(self, now: float) -> bool:
        return self.died_at is None and now < self.expires_at

    def count(self, queue: str | None = None) -> int:
        return sum(len(jobs) for name, jobs in self.in_progress.items() if queue in (None, name))
