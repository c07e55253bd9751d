"""A connection of one thread whose blocking command runs while the thread does something else.

The line is in one of three states, which its thread alone changes:

    new      not connected, or the server at the other end may not have the lease of this process
    free     connected, and its server has the lease
    waiting  BRPOPLPUSH was sent, and its reply was not read

The command ends by its own time limit, when a job comes, or by CLIENT UNBLOCK over another connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.exchange import (
    Argument,
    Driver,
    RedisCommand,
    close_cut_short,
    drop_if_better_elsewhere,
    read,
    ready,
)
from goworkers_py.brokers.redis.driver.packing import packed
from goworkers_py.brokers.redis.driver.replies import check
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerUnavailable


class WaitingLine(BlockingLine):
    def __init__(self, connection: Driver, call_hastily: Callable[..., Any]) -> None:
        super().__init__(connection, call_hastily)
        self._command: RedisCommand | None = None  # while the line waits
        self._began = 0.0
        self.client_id = 0  # the number of this connection at the server

    @property
    def waits(self) -> bool:
        return self._command is not None

    def fileno(self) -> int:
        """For `poll`, while the line waits. redis-py tells the socket of a connection by no public name."""
        socket = self._connection._sock
        if socket is None:
            raise BrokerUnavailable("the connection was closed")
        return int(socket.fileno())

    def connect(self, trust: Callable[[WaitingLine], None]) -> None:
        """Makes a line that does not wait free. `trust` is called for a new line: it sets `trusted`, or raises."""
        ready(self._connection)
        while not self.trusted:  # an exchange of these two may find the connection closed, and make a new one
            trust(self)
            self.client_id = self.call("CLIENT", "ID")

    def begin(self, *command: Argument) -> None:
        """Sends a command that may block, over a free line."""
        self._begin()
        self._began = machine.monotonic()
        try:
            self._connection.send_packed_command(packed([command]))
        except BaseException as error:
            close_cut_short(self._connection, error, self._began)
            raise
        self._command = command

    def answer(self) -> Any:
        """Reads the reply; waits for it if it has not come. The line does not wait any more, also after an error."""
        command, self._command = self._command, None
        assert command is not None
        try:
            reply = read(self._connection)
            check([command], [reply])
        except BaseException as error:
            close_cut_short(self._connection, error, self._began)
            raise
        self._whole = True
        drop_if_better_elsewhere(self._connection, [reply])
        return self._checked([command], [reply])[0]

    def is_overdue(self, longest_s: float) -> bool:
        return self.waits and machine.monotonic() - self._began > longest_s

    def give_up(self) -> None:
        """Closes a line whose reply does not come; raises BrokerUnavailable."""
        self._command = None
        close_cut_short(self._connection, TimeoutError("the server does not answer"), self._began)

    def close(self) -> None:
        self._command = None
        super().close()
