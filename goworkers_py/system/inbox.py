"""The queue of commands to this process. Any thread puts, only the main thread takes."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from goworkers_py.core.values import NamedTuple

if TYPE_CHECKING:
    from goworkers_py.core.command import Command


class Order(NamedTuple):
    command: Command
    log_line: str


class Inbox:
    def __init__(self) -> None:
        # `put` is one step of C code: a signal handler may call it while any thread, also the main thread, is in it.
        self._waiting: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self.put = self._waiting.put

    def obey(self, command: Command, who: str) -> None:
        """From any thread. `who` asks: the fleet, the parent, the watchdog."""
        self.put(Order(command, f"{who} asks: {command.value}"))

    def end(self) -> None:
        """The daemon's life is over: no command follows."""
        self.put(None)

    def take(self, timeout_s: float) -> Order | None:
        """The next command; None at the end. Raises queue.Empty at the time limit."""
        return self._waiting.get(timeout=timeout_s)
