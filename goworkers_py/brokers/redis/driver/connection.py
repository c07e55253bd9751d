"""Connections to Redis, made by redis-py and borrowed for one whole exchange at a time.

A command must never get the reply of an earlier command. So a connection is used again only after all replies of its
last exchange were read. One step says so: after the exchange, the thread appends the connection to the free list. An
exception that the watchdog throws into the thread can only prevent that step. No clean-up code has to run.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, SSLConnection
from redis.retry import Retry

from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.exchange import Argument, Driver, Exchanges, RedisCommand, converse, keys_of
from goworkers_py.brokers.redis.driver.sentinel import close_sentinels, options_in, sentinel_pool
from goworkers_py.brokers.redis.driver.translation import check_files, is_of_another_type, translated
from goworkers_py.brokers.redis.driver.waiting_line import WaitingLine
from goworkers_py.config.cluster_address import is_cluster
from goworkers_py.core.errors import BrokerError, BrokerFull, ConfigError
from goworkers_py.core.strikes import Lock

SOCKET_TIMEOUT_S = 5.0
HASTE_S = 0.5


def _driver() -> dict[str, Any]:
    """The version of redis-py that a connection tells the server. By default, each new one reads it from the files of
    the installed package, which takes longer than all else that it does."""
    try:
        from redis.driver_info import DriverInfo
    except ImportError:  # an older redis-py
        return {"lib_version": redis.__version__}
    return {"driver_info": DriverInfo(lib_version=redis.__version__)}


_DRIVER = _driver()


class Connections(Exchanges):
    """A free list of connections to one address. A thread borrows a connection for one exchange. Safe after a fork."""

    # The reply of a blocking command may come this much after the command's time limit; then the connection is lost.
    reply_margin_s = 3.0

    def __init__(self, url: str, client_name: str = "pyworkers", timeout_s: float = SOCKET_TIMEOUT_S) -> None:
        # Kept, because the connections of a sentinel pool ask it where the primary is.
        self._pool = _pool(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            client_name=client_name,
            **_DRIVER,
        )
        self._make = self._pool.connection_class
        self._options = dict(self._pool.connection_kwargs)
        self._lock = Lock()  # any thread, for changes of `_all`; `_free` is used in single steps of C code
        # `close` and a fork replace `_free` and `_all`. A thread that borrowed a connection before that appends it to
        # the old `_free`, sees that `_free` was replaced, and closes the connection.
        self._free: deque[Driver] = deque()
        # Weak: a connection whose borrower was interrupted is closed when its last reference goes.
        self._all: weakref.WeakSet[Driver] = weakref.WeakSet()
        self._pid = os.getpid()

    def call_hastily(self, *command: Argument) -> Any:
        """Like `call`, over a new connection, for a thread that cannot wait for a server that hangs."""
        connection = self._make(**{**self._options, "socket_timeout": HASTE_S, "socket_connect_timeout": HASTE_S})
        try:
            return self._checked([command], converse(connection, [command]))[0]
        finally:
            connection.disconnect()

    def call_at(self, *command: Argument) -> tuple[str, Any]:
        """Like `call`, over a new connection. Returns the address of the server too: in a cluster and behind sentinels,
        each connection asks anew where that is."""
        connection = self.new_connection()
        try:
            reply = self._checked([command], converse(connection, [command]))[0]
            return _address_of(connection), reply  # which the connection knows once it is connected
        finally:
            connection.disconnect()

    def transaction(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """MULTI, the commands, EXEC, in one round trip. A command that is wrong as such keeps all from being done. One
        that fails at its key does not: the `places` of the error are those of the commands that were done."""
        replies = self.replies([("MULTI",), *commands, ("EXEC",)])
        # The first error says more than EXEC's "discarded because of previous errors".
        for command, reply in zip((("MULTI",), *commands, ("EXEC",)), replies, strict=True):
            self._raise_error(reply, keys_of(command))
        try:
            return self._checked(commands, replies[-1])
        except BrokerError as error:
            done = (at for at, reply in enumerate(replies[-1]) if not isinstance(reply, redis.ResponseError))
            error.places = frozenset(done)
            raise

    def only_last(self, commands: Sequence[RedisCommand]) -> Any:
        """Sends commands in one round trip. Returns the reply to the last one, or raises if it is an error reply. The
        replies to the others do not matter."""
        if not commands:
            return None
        reply = self.replies(commands)[-1]
        self._raise_error(reply, keys_of(commands[-1]))
        return reply

    def answers(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """Like `exchange`, but the reply for a key of a wrong type is None, so that one damaged key does not hide the
        other keys."""
        replies = self.replies(commands)
        return self._checked(commands, [None if is_of_another_type(reply) else reply for reply in replies])

    def refusals(self, commands: Sequence[RedisCommand]) -> list[tuple[RedisCommand, str]]:
        """The commands that the server would refuse. No command is run: the transaction has a mistake in it."""
        self.transaction([("TIME",)])  # raises where MULTI is refused: the commands would be run one by one
        replies = self.replies([("MULTI",), *commands, ("GET",), ("EXEC",)])[1:-2]
        answered = zip(commands, replies, strict=True)
        refused = [(command, reply) for command, reply in answered if isinstance(reply, redis.ResponseError)]
        for _, reply in refused:
            if isinstance(full := translated(reply), BrokerFull):
                raise full  # of the server, and no rule: since Redis 8, a full one still opens a transaction
        return [(command, str(reply)) for command, reply in refused]

    def blocking_line(self, longest_s: float) -> BlockingLine:
        """A connection outside the free list, for one thread whose commands block for at most `longest_s`."""
        return BlockingLine(self._patient(longest_s), self.call_hastily)

    def waiting_line(self, longest_s: float) -> WaitingLine:
        """Like `blocking_line`, and the thread need not wait for the reply."""
        return WaitingLine(self._patient(longest_s), self.call_hastily)

    def new_connection(self) -> Driver:
        """A connection outside the free list, not connected yet."""
        return self._make(**self._options)

    def _patient(self, longest_s: float) -> Driver:
        return self._make(**{**self._options, "socket_timeout": longest_s + self.reply_margin_s})

    def replies(self, commands: Sequence[RedisCommand]) -> list[Any]:
        self._forget_parents()
        free = self._free
        try:
            connection = free.pop()
        except IndexError:
            connection = self._make(**self._options)
            with self._lock:
                self._all.add(connection)
        replies = converse(connection, commands)
        free.append(connection)  # after a whole exchange only
        if free is not self._free:
            connection.disconnect()  # borrowed before a fork or a `close`
        return replies

    def close(self) -> None:
        self._forget_parents()
        with self._lock:
            connections, self._free, self._all = list(self._all), deque(), weakref.WeakSet()
        for connection in connections:
            connection.disconnect()
        close_sentinels(self._pool)

    def _forget_parents(self) -> None:
        """In a forked child: the sockets belong to the parent, so the child begins without connections."""
        if self._pid != os.getpid():
            self._lock, self._free, self._all = Lock(), deque(), weakref.WeakSet()
            self._pid = os.getpid()


def _address_of(connection: Driver) -> str:
    if path := getattr(connection, "path", ""):  # of a socket
        return str(path)
    host = f"[{connection.host}]" if ":" in connection.host else connection.host
    return f"{host}:{connection.port}"


def _pool(url: str, **options: Any) -> ConnectionPool:
    """redis-py's pool for an address. We take only the class of its connections and their options."""
    try:
        if url.startswith("sentinel://"):
            pool = sentinel_pool(url, **options)
        elif is_cluster(url):
            from goworkers_py.brokers.redis.driver.cluster import cluster_pool

            pool = cluster_pool(url, **options)
        else:
            pool = ConnectionPool(**{**options, **options_in(url)})
        sample = pool.connection_class(**pool.connection_kwargs)  # not connected
    except (TypeError, ValueError, redis.RedisError) as error:
        raise ConfigError(f"the server's address is not valid: {error}") from None
    if isinstance(sample, SSLConnection):
        check_files(sample)
    return pool
