"""Connections to Redis: redis-py's, used one whole exchange at a time.

Redis-py connects, authenticates, speaks TLS and parses. What is left out is what it does behind the caller's back:
nothing is sent a second time here, so a push or a fetch whose reply got lost is never silently repeated. And the next
command is never given the reply of the last one: a connection is used again only when all replies of its last exchange
were read. That is said by one step after a whole exchange, which an exception thrown into the thread at whatever moment
can only keep from being reached; no clean-up has to run for it.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, SSLConnection
from redis.retry import Retry

from goworkers_py.brokers.redis.access import is_refused_in_script, names_command, probes, refusal
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.packing import packed
from goworkers_py.brokers.redis.replies import Fits, check, expect
from goworkers_py.brokers.redis.sentinel import close_sentinels, options_in, sentinel_pool
from goworkers_py.brokers.redis.translation import (
    check_files,
    hung_up,
    is_better_elsewhere,
    is_of_another_type,
    translated,
    unreachable,
)
from goworkers_py.core.errors import BrokerError, ConfigError, WrongType

Argument = str | bytes | int | float
Command = Sequence[Any]  # of Arguments; hiredis has its own, longer idea of them
Driver = Any  # a connection of redis-py, whose methods are not typed

SOCKET_TIMEOUT_S = 5.0
# How much later than its own time limit a blocking command's reply may come before the connection counts as lost.
REPLY_MARGIN_S = 3.0
HASTE_S = 0.5
# A namespace for commands that are asked for and never run.
_NOBODYS = "of nobody"
# The system goes on sending what was written to a connection that was closed meanwhile, for less than this.
LATE_S = 3_600.0


class Script:
    """A Lua script: sent by its digest, whole where the server does not know it."""

    def __init__(self, path: Path, fits: Fits | None = None, typed: int | None = None) -> None:
        """`fits` tells whether a reply is one that the script gives. `typed` is how many of its keys, from the first
        on, may be of a wrong type, where the script only asks whether the others exist."""
        self.typed = typed
        self.source = path.read_text("utf-8")
        self.commands = set(re.findall(r"redis\.p?call\('(\w+)'", self.source))
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        if fits is not None:
            for command in (self.sha, self.source):
                expect(command, fits)


class _Exchanges:
    """What can be asked over a connection, whichever it is."""

    def _exchange_raw(self, commands: Sequence[Command]) -> list[Any]:
        """All commands in one round trip; error replies in their places."""
        raise NotImplementedError

    def call(self, *command: Argument) -> Any:
        """One command, one reply; an error reply is raised."""
        return self.exchange([command])[0]

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Commands in one round trip; the first error reply is raised when all have been read."""
        return self._checked(commands, self._exchange_raw(commands))

    def script(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        tail = (len(keys), *keys, *arguments)
        reply = self._exchange_raw([("EVALSHA", script.sha, *tail)])[0]
        if isinstance(reply, redis.exceptions.NoScriptError):
            reply = self._exchange_raw([("EVAL", script.source, *tail)])[0]
        if isinstance(reply, redis.ResponseError) and is_refused_in_script(str(reply)):
            reply = self._refused_command(script) or reply
        if is_of_another_type(reply):
            keys = keys[: script.typed]
        self._raise_error(reply, keys)
        return reply

    def explained(self, script: Script, told: str) -> str:
        """The text of an error that the script has caught and given back."""
        if is_refused_in_script(told) and (named := self._refused_command(script)) is not None:
            told = str(named)
        return refusal(told) or told

    def _refused_command(self, script: Script) -> redis.ResponseError | None:
        """Redis before 7.2 does not say which command of a script it was, so each is tried by itself in a transaction
        with a mistake in it: none is run. They would be run one by one where MULTI is what is refused."""
        if isinstance(self._exchange_raw([("MULTI",), ("TIME",), ("EXEC",)])[0], redis.ResponseError):
            return None
        commands = [command for command in probes(Keys(_NOBODYS)) if command[0] in script.commands]
        replies = self._exchange_raw([("MULTI",), *commands, ("GET",), ("EXEC",)])[1:-2]
        refused = (reply for reply in replies if isinstance(reply, redis.ResponseError))
        return next((reply for reply in refused if names_command(str(reply))), None)  # others miss the key

    def _checked(self, commands: Sequence[Command], replies: list[Any]) -> list[Any]:
        for command, reply in zip(commands, replies, strict=True):
            self._raise_error(reply, _keys_of(command))
        return replies

    def _raise_error(self, reply: Any, keys: Sequence[Any] = ()) -> None:
        if is_of_another_type(reply) and keys:
            raise WrongType(self._types(keys)) from reply
        if isinstance(reply, redis.ResponseError):
            raise translated(reply, keys) from reply

    def _types(self, keys: Sequence[Any]) -> str:
        """The server does not say which key it was; so it is asked, where it may be."""
        replies = self._exchange_raw([("TYPE", key) for key in keys])
        types = zip(keys, replies, strict=True)
        told = [f"{key} is a {kind.decode()}" for key, kind in types if isinstance(kind, bytes) and kind != b"none"]
        return " and ".join(told) or " or ".join(map(str, keys))


class Connections(_Exchanges):
    """A free list of connections to one address; a thread borrows one for one exchange. Safe after a fork."""

    def __init__(self, url: str, client_name: str = "pyworkers") -> None:
        # Kept: a sentinel's connections ask their pool where the primary is.
        self._pool = _pool(
            url,
            socket_timeout=SOCKET_TIMEOUT_S,
            socket_connect_timeout=SOCKET_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            client_name=client_name,
        )
        self._make = self._pool.connection_class
        self._options = dict(self._pool.connection_kwargs)
        self._lock = threading.Lock()  # for changes of `_all`; `_free` is used in single steps of C code
        # `close` and a fork put new ones into the place of both. Who comes back with a connection from before then
        # holds the old `_free`, sees that, and closes it.
        self._free: deque[Driver] = deque()
        # Weak: one whose borrower was interrupted is forgotten, and closed with the last reference to it.
        self._all: weakref.WeakSet[Driver] = weakref.WeakSet()
        self._pid = os.getpid()

    def call_hastily(self, *command: Argument) -> Any:
        """Like `call`, for somebody who cannot wait for a server that hangs."""
        connection = self._make(**{**self._options, "socket_timeout": HASTE_S, "socket_connect_timeout": HASTE_S})
        try:
            return self._checked([command], _converse(connection, [command]))[0]
        finally:
            connection.disconnect()

    def transaction(self, commands: Sequence[Command]) -> list[Any]:
        """All or nothing: MULTI, the commands, EXEC, in one round trip."""
        replies = self._exchange_raw([("MULTI",), *commands, ("EXEC",)])
        # The first error says more than EXEC's "discarded because of previous errors".
        for command, reply in zip((("MULTI",), *commands, ("EXEC",)), replies, strict=True):
            self._raise_error(reply, _keys_of(command))
        return self._checked(commands, replies[-1])

    def answers(self, commands: Sequence[Command]) -> list[Any]:
        """Like `exchange`, but a key of a type that the command is not for is answered by None: one such key, made by
        whomever, is not to hide the others."""
        replies = self._exchange_raw(commands)
        return self._checked(commands, [None if is_of_another_type(reply) else reply for reply in replies])

    def refusals(self, commands: Sequence[Command]) -> list[tuple[Command, str]]:
        """Which of them the server would refuse. None is run: they stand in a transaction with a mistake in it."""
        self.transaction([("TIME",)])  # or else it would run them one by one
        replies = self._exchange_raw([("MULTI",), *commands, ("GET",), ("EXEC",)])[1:-2]
        answered = zip(commands, replies, strict=True)
        return [(command, str(reply)) for command, reply in answered if isinstance(reply, redis.ResponseError)]

    def blocking_line(self, longest_s: float) -> BlockingLine:
        """A connection outside the list, for one thread whose commands block for at most `longest_s`."""
        return BlockingLine(self, self._make(**{**self._options, "socket_timeout": longest_s + REPLY_MARGIN_S}))

    def _exchange_raw(self, commands: Sequence[Command]) -> list[Any]:
        self._forget_parents()
        free = self._free
        try:
            connection = free.pop()
        except IndexError:
            connection = self._make(**self._options)
            with self._lock:
                self._all.add(connection)
        replies = _converse(connection, commands)
        free.append(connection)  # after a whole exchange only
        if free is not self._free:
            connection.disconnect()  # lent before a fork, or closed meanwhile
        return replies

    def close(self) -> None:
        self._forget_parents()
        with self._lock:
            connections, self._free, self._all = list(self._all), deque(), weakref.WeakSet()
        for connection in connections:
            connection.disconnect()
        close_sentinels(self._pool)

    def _forget_parents(self) -> None:
        """After a fork the sockets belong to the parent: leave them alone and start with none."""
        if self._pid != os.getpid():
            self._lock, self._free, self._all = threading.Lock(), deque(), weakref.WeakSet()
            self._pid = os.getpid()


def _pool(url: str, **options: Any) -> ConnectionPool:
    """redis-py's pool for an address, from which we take the kind of connection and its options."""
    try:
        if url.startswith("sentinel://"):
            pool = sentinel_pool(url, **options)
        else:
            pool = ConnectionPool(**{**options, **options_in(url)})
        sample = pool.connection_class(**pool.connection_kwargs)  # not connected
    except (TypeError, ValueError, redis.RedisError) as error:
        raise ConfigError(f"redis: the address does not fit: {error}") from None
    if isinstance(sample, SSLConnection):
        check_files(sample)
    return pool


class BlockingLine(_Exchanges):
    """One thread's own connection, also for commands that block on the server, which any other thread can end."""

    def __init__(self, connections: Connections, connection: Driver) -> None:
        self._connections = connections
        self._connection = connection
        # Set by whoever has seen that the server at the other end knows this process. A server that came back with an
        # older state may not: so it turns false whenever a connection is made.
        self.trusted = False
        connection.register_connect_callback(self._connected)
        self._whole = True  # False from the begin of an exchange to its end
        self._cut_short_at = -math.inf  # monotonic: the last exchange before which the one before was found cut short
        self._client_id: int | None = None  # set while the command may be blocking
        # Set before the number is looked at by whoever wakes, looked at after the number is set.
        self._wanted = threading.Event()

    def _exchange_raw(self, commands: Sequence[Command]) -> list[Any]:
        self._begin()
        replies = _converse(self._connection, commands)
        self._whole = True
        return replies

    def _begin(self) -> None:
        if not self._whole:
            self._cut_short_at = time.monotonic()
            self._connection.disconnect()
        self._whole = False

    def _connected(self, connection: Driver) -> None:
        self.trusted = False

    def block(self, *command: Argument, trusted: bool = False) -> Any:
        """The reply, or None when the server's time limit came first or `wake` did. With `trusted` also None, and
        nothing is sent, where the connection had to be made anew."""
        if self._wanted.is_set():
            self._wanted.clear()
            return None
        self._begin()
        began = time.monotonic()
        try:
            _ready(self._connection)
            if trusted and not self.trusted:
                self._whole = True
                return None
            # The server numbers each connection anew, so the number is asked for every time, in the same packet.
            self._connection.send_packed_command(packed([("CLIENT", "ID"), command]))
            client_id = self._connection.read_response()
            check([("CLIENT ID",)], [client_id])
            self._client_id = client_id
            try:
                if self._wanted.is_set():
                    with suppress(BrokerError):  # then it ends by its own time limit
                        self._unblock()
                reply = _read(self._connection)
                check([command], [reply])
            finally:
                self._client_id = None
                self._wanted.clear()
        except BaseException as error:
            _close_cut_short(self._connection, error, began)
            raise
        self._whole = True
        _drop_if_better_elsewhere(self._connection, [reply])
        return self._checked([command], [reply])[0]

    def wake(self) -> None:
        """Ends the blocking command that runs, or the next one."""
        self._wanted.set()
        self._unblock()

    def _unblock(self) -> None:
        client_id = self._client_id
        if client_id is not None:
            self._connections.call_hastily("CLIENT", "UNBLOCK", client_id)

    def end(self) -> bool:
        """Closes the line. True when nothing that was sent over it can still reach the server."""
        whole = self._whole
        self.close()
        return whole and time.monotonic() - self._cut_short_at > LATE_S

    def close(self) -> None:
        self._connection.disconnect()


def _converse(connection: Driver, commands: Sequence[Command]) -> list[Any]:
    """Sends all commands and reads as many replies; error replies are returned in their places."""
    began = time.monotonic()
    try:
        _ready(connection)
        connection.send_packed_command(packed(commands))
        replies = [_read(connection) for _ in commands]
        check(commands, replies)
    except BaseException as error:
        _close_cut_short(connection, error, began)
        raise
    _drop_if_better_elsewhere(connection, replies)
    return replies


def _close_cut_short(connection: Driver, error: BaseException, began: float) -> None:
    """An exchange that was cut short leaves replies on their way: close at once. And the error becomes one of ours."""
    connection.disconnect()
    ours = translated(error)
    if isinstance(ours, BrokerError):
        ours.began = began
    if ours is not error:
        raise ours from error


def _ready(connection: Driver) -> None:
    """Connects, and connects anew if the server has closed an idle connection: nothing was sent yet, so it is safe."""
    _connect(connection)
    try:
        stale = connection.can_read(0)
    except redis.ConnectionError:
        stale = True
    if stale:
        connection.disconnect()
        _connect(connection)


def _connect(connection: Driver) -> None:
    try:
        connection.connect()
    except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
        told = hung_up(error) if isinstance(connection, SSLConnection) else None
        raise told or unreachable(error) from error


def _read(connection: Driver) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error


def _drop_if_better_elsewhere(connection: Driver, replies: Sequence[Any]) -> None:
    if any(map(is_better_elsewhere, replies)):
        connection.disconnect()


def text(raw: bytes) -> str:
    """A name that the server tells. Somebody may have written one that is no text."""
    return raw.decode("utf-8", "replace")


def _keys_of(command: Command) -> Command:
    return command[1:3] if command[0].endswith("RPOPLPUSH") else command[1:2]
