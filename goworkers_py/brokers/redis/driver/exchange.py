"""One exchange with the server: sends commands, reads as many replies, and translates errors into ours.

redis-py connects, authenticates, speaks TLS and parses. Its retries are not used: nothing here sends a command a second
time, so a push or a fetch whose reply was lost is never repeated silently.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import redis
from redis.connection import SSLConnection

from goworkers_py.brokers.redis.driver.composition import Composition
from goworkers_py.brokers.redis.driver.packing import Argument as Argument
from goworkers_py.brokers.redis.driver.packing import packed
from goworkers_py.brokers.redis.driver.replies import Fits, check, expect
from goworkers_py.brokers.redis.driver.translation import (
    hung_up,
    is_better_elsewhere,
    is_of_another_type,
    refused_connection,
    reset_at_first,
    translated,
    unreachable,
)
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.brokers.redis.parts import NumberOf as NumberOf
from goworkers_py.brokers.redis.server.refusals import is_refused_in_script, names_command, refusal
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, WrongType

RedisCommand = Sequence[Any]  # of Arguments; not typed so, because hiredis allows more types
Driver = Any  # a connection of redis-py, whose methods are not typed

LUA = Path(__file__).parent.parent / "lua"

# The namespace in the keys of probes, which are never run.
_NOBODYS = "of nobody"


class Script:
    """A Lua script. It is sent as its digest, and as its source when the server does not know the digest."""

    def __init__(
        self,
        path: Path,
        fits: Fits | None = None,
        typed: int | None = None,
        before: str = "",
        words: Collection[str] | None = None,
    ) -> None:
        """`fits` checks that a reply is of the kind that the script returns. Only the keys up to `typed` can
        have a wrong type, because the script only asks whether the other keys exist. `before` is put before
        the source. `words` are those of ties and effects that the script knows, None: all; see `composition`."""
        self.path = path
        self.fits = fits
        self.typed = typed
        self.before = before
        self.words = words

    @cached_property
    def source(self) -> str:
        """It is composed when it is first needed."""
        source = self.before + Composition(self.words).compose(self.path)
        if self.fits is not None:
            expect(source, self.fits)
        return source

    @cached_property
    def sha(self) -> str:
        sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        if self.fits is not None:
            expect(sha, self.fits)
        return sha

    @property
    def commands(self) -> set[str]:
        return set(re.findall(r"redis\.p?call\('(\w+)'", self.source))


class Exchanges:
    """Exchanges over a connection; subclasses choose the connection."""

    def replies(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """Sends all commands in one round trip. Returns the replies in order, error replies among them."""
        raise NotImplementedError

    def call(self, *command: Argument) -> Any:
        """Sends one command and returns its reply; raises for an error reply."""
        return self.exchange([command])[0]

    def exchange(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """Sends commands in one round trip. Raises for the first error reply, after all replies were read."""
        return self._checked(commands, self.replies(commands))

    def script(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        tail = (len(keys), *keys, *arguments)
        reply = self.replies([("EVALSHA", script.sha, *tail)])[0]
        if isinstance(reply, redis.exceptions.NoScriptError):
            reply = self.replies([("EVAL", script.source, *tail)])[0]
        if isinstance(reply, redis.ResponseError) and is_refused_in_script(str(reply)):
            reply = self._refused_command(script) or reply
        if is_of_another_type(reply):
            keys = keys[: script.typed]
        self._raise_error(reply, keys)
        return reply

    def explained(self, script: Script, error: str) -> str:
        """The text of an error that the script caught and returned, in our words."""
        if is_refused_in_script(error) and (named := self._refused_command(script)) is not None:
            error = str(named)
        return refusal(error) or error

    def _refused_command(self, script: Script) -> redis.ResponseError | None:
        """The error reply for the command of a script that the access rules refuse.

        Redis before 7.2 does not name that command. So each command of the script is sent in a transaction with a
        mistake in it, which runs none of them. Returns None when MULTI itself is refused: the commands would be run.
        """
        if isinstance(self.replies([("MULTI",), ("TIME",), ("EXEC",)])[0], redis.ResponseError):
            return None
        from goworkers_py.brokers.redis.server.access import probes

        commands = [command for command in probes(Keys(_NOBODYS)) if command[0] in script.commands]
        replies = self.replies([("MULTI",), *commands, ("GET",), ("EXEC",)])[1:-2]
        refused = (reply for reply in replies if isinstance(reply, redis.ResponseError))
        # The other error replies are about keys.
        return next((reply for reply in refused if names_command(str(reply))), None)

    def _checked(self, commands: Sequence[RedisCommand], replies: list[Any]) -> list[Any]:
        for command, reply in zip(commands, replies, strict=True):
            self._raise_error(reply, keys_of(command))
        return replies

    def _raise_error(self, reply: Any, keys: Sequence[Any] = ()) -> None:
        if not isinstance(reply, redis.ResponseError):
            return
        if is_of_another_type(reply) and keys:
            reason = f"WRONGTYPE: {self._types(keys)}; rename or delete what some other program wrote there"
            raise WrongType(reason) from reply
        raise translated(reply, keys) from reply

    def _types(self, keys: Sequence[Any]) -> str:
        """The types of the keys. The error reply does not say which key has a wrong type, so TYPE asks for each."""
        replies = self.replies([("TYPE", key) for key in keys])
        types = zip(keys, replies, strict=True)
        descriptions = [
            f"{key} is a {kind.decode()}" for key, kind in types if isinstance(kind, bytes) and kind != b"none"
        ]
        return " and ".join(descriptions) or " or ".join(map(str, keys))


def converse(connection: Driver, commands: Sequence[RedisCommand]) -> list[Any]:
    """Sends all commands and reads as many replies. Returns the replies in order, error replies among them."""
    began = machine.monotonic()
    try:
        ready(connection)
        connection.send_packed_command(packed(commands))
        replies = [read(connection) for _ in commands]
        check(commands, replies)
    except BaseException as error:
        close_cut_short(connection, error, began)
        raise
    drop_if_better_elsewhere(connection, replies)
    return replies


def close_cut_short(connection: Driver, error: BaseException, began: float) -> None:
    """Closes the connection, because replies may still arrive on it, and raises the error as one of ours."""
    connection.disconnect()
    ours = translated(error)
    if isinstance(ours, BrokerError):
        ours.began = began
    if ours is not error:
        raise ours from error


def ready(connection: Driver) -> None:
    """Connects, also when the server has closed an idle connection. Nothing was sent on it, so nothing is repeated."""
    connect(connection)
    try:
        stale = connection.can_read(0)
    except redis.ConnectionError:
        stale = True
    if stale:
        connection.disconnect()
        connect(connection)


def connect(connection: Driver) -> None:
    try:
        connection.connect()
    except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
        broker_error = hung_up(error) if isinstance(connection, SSLConnection) else reset_at_first(error)
        raise broker_error or unreachable(error) from error
    except redis.ResponseError as error:
        raise refused_connection(error) from error


def read(connection: Driver) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return error


def drop_if_better_elsewhere(connection: Driver, replies: Sequence[Any]) -> None:
    refused = [reply for reply in replies if isinstance(reply, redis.ResponseError)]
    if refused and any(map(is_better_elsewhere, refused)):
        connection.disconnect()


def text(raw: bytes) -> str:
    """A name from the server, as text. Another program may have written one that is not UTF-8."""
    return raw.decode("utf-8", "replace")


def as_number(value: Any) -> float:
    """The value as a number; 0 when it is none, because other programs write there too."""
    try:
        number = float(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def keys_of(command: RedisCommand) -> RedisCommand:
    return command[1:3] if command[0].endswith("RPOPLPUSH") else command[1:2]
