"""A connection of one thread, also for commands that block on the server."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from goworkers_py.brokers.redis.driver.exchange import (
    Argument,
    Driver,
    Exchanges,
    RedisCommand,
    close_cut_short,
    converse,
    drop_if_better_elsewhere,
    read,
    ready,
)
from goworkers_py.brokers.redis.driver.packing import packed
from goworkers_py.brokers.redis.driver.replies import check
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError


class BlockingLine(Exchanges):
    """A connection of one thread. Its commands may block on the server; any other thread can end such a command."""

    # After a connection is closed, the kernel may still send what was written to it, but for less than this time.
    late_s = 3_600.0

    def __init__(self, connection: Driver, call_hastily: Callable[..., Any]) -> None:
        """`call_hastily` sends a command over another connection, and does not wait for a server that hangs."""
        self._connection = connection
        self._call_hastily = call_hastily
        # The fetcher thread sets it when the server at the other end has the lease of this process. A new connection
        # sets it to False: it may lead to a server that came back with an older state, without the lease.
        self.trusted = False
        connection.register_connect_callback(self._connected)
        self._whole = True  # False from the beginning of an exchange to its end
        self._cut_short_at = -math.inf  # monotonic time when an exchange was last found cut short
        # The number of this connection at the server, while a command may be blocking.
        self._client_id: int | None = None
        # The waking thread sets `_wanted`, then reads `_client_id`. The blocking thread sets `_client_id`, then reads
        # `_wanted`. So at least one of the two threads sees what the other one has set, and no wake is lost.
        self._wanted = machine.Event()

    def replies(self, commands: Sequence[RedisCommand]) -> list[Any]:
        self._begin()
        replies = converse(self._connection, commands)
        self._whole = True
        return replies

    def _begin(self) -> None:
        if not self._whole:
            self._cut_short_at = machine.monotonic()
            self._connection.disconnect()
        self._whole = False

    def _connected(self, connection: Driver) -> None:
        self.trusted = False

    def block(self, *command: Argument, trusted: bool = False) -> Any:
        """Returns the reply, or None when the command's time limit or `wake` ended it. With `trusted`, a connection
        that had to be made anew sends nothing, and the call returns None."""
        if self._wanted.is_set():
            self._wanted.clear()
            return None
        self._begin()
        began = machine.monotonic()
        try:
            ready(self._connection)
            if trusted and not self.trusted:
                self._whole = True
                return None
            # A new connection has a new number at the server, so each call asks for the number, in the same packet.
            self._connection.send_packed_command(packed([("CLIENT", "ID"), command]))
            client_id = self._connection.read_response()
            check([("CLIENT ID",)], [client_id])
            self._client_id = client_id
            try:
                if self._wanted.is_set():
                    with suppress(BrokerError):  # then the command ends by its own time limit
                        self._unblock()
                reply = read(self._connection)
                check([command], [reply])
            finally:
                self._client_id = None
                self._wanted.clear()
        except BaseException as error:
            close_cut_short(self._connection, error, began)
            raise
        self._whole = True
        drop_if_better_elsewhere(self._connection, [reply])
        return self._checked([command], [reply])[0]

    def wake(self) -> None:
        """From any thread. Ends the blocking command that runs, or the next one."""
        self._wanted.set()
        self._unblock()

    def _unblock(self) -> None:
        client_id = self._client_id
        if client_id is not None:
            self._call_hastily("CLIENT", "UNBLOCK", client_id)

    def end(self) -> bool:
        """Closes the connection. True when nothing that was sent over it can still reach the server."""
        whole = self._whole
        self.close()
        return whole and machine.monotonic() - self._cut_short_at > self.late_s

    def close(self) -> None:
        self._connection.disconnect()
