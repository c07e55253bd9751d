"""This process and the fleet: the process reports itself, and gets the commands that people sent to it."""

from __future__ import annotations

from typing import Protocol

from goworkers_py.core.command import Command
from goworkers_py.observe.executions import ByQueue
from goworkers_py.wire.process_record import ProcessMember, ProcessSnapshot


class Control(Protocol):
    """Used by the heartbeat thread; after that thread has ended, by the thread that stops the process.

    No job depends on these verbs. A verb that the broker refuses logs a warning, once, and returns. The only error that
    a verb raises is BrokerUnavailable; it may then be called again.
    """

    def report(self, identity: str, member: ProcessMember, now: ProcessSnapshot) -> list[Command]:
        """Shows this process to the fleet, in place of its last report. Called after each beat.

        A process that reports under a new identity is no longer shown under its old one. Returns the commands that
        people sent to this identity, the oldest first; each command is returned once. A command that is older than a
        minute is dropped.
        """

    def record(self, total: ByQueue, at: float) -> None:
        """Adds the new executions of this process to the fleet's history: by queue, in the day of `at` (epoch seconds),
        see `Admin.history`; in Redis by class too, in its minute. `total` counts all executions since the process
        started; `record` subtracts those of its last call.

        When its reply was lost, executions may count twice. Those since the last call before a crash are not counted.
        """

    def leave(self) -> None:
        """Stops showing this process to the fleet. A process that was never shown may leave."""
