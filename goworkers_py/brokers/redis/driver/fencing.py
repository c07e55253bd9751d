"""Connections for one term, behind its fence: the server refuses what they write when the term is over.

Every script gets fence.lua before its source, and the lease of the fence and the token of the term as its last key
and argument. It has a digest of its own then. Commands that write and are no script go through fenced_commands.lua,
many in one step. Commands that only read are sent as they are. The server would do a blocking command for a process
that is paused, without a look at the lease: none is sent, see `fenced_consumer`.

Before it sends a write, `Fence.check` compares the time of this machine. The answer of the server decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Argument, Driver, Exchanges, RedisCommand, Script, keys_of
from goworkers_py.brokers.redis.driver.translation import is_fenced
from goworkers_py.core.fence import Fence

# Every command that is not listed here counts as one that writes.
_READS = frozenset(
    [
        "EXISTS", "TYPE", "TTL", "PTTL", "TIME", "PING", "INFO", "CONFIG", "CLIENT", "SCAN", "GET", "LLEN", "LRANGE",
        "LINDEX", "LPOS", "SMEMBERS", "SISMEMBER", "SCARD", "SSCAN", "HGET", "HMGET", "HGETALL", "HKEYS", "HVALS",
        "HLEN", "HEXISTS", "HSCAN", "ZCARD", "ZCOUNT", "ZSCORE", "ZMSCORE", "ZRANGE", "ZREVRANGE", "ZRANGEBYSCORE",
        "EVAL", "EVALSHA", "MULTI",
    ]
)  # fmt: skip
_SEVERAL_KEYS = frozenset({"DEL", "UNLINK"})

_FENCE = (LUA / "fragments" / "fence.lua").read_text("utf-8")


@cache
def fenced(script: Script) -> Script:
    typed = script.typed if script.typed is None else script.typed - 1
    return Script(script.path, script.fits, typed, _FENCE, script.words)


_COMMANDS = Script(LUA / "fenced_commands.lua")


class Fencing(Exchanges):
    """Exchanges over fenced connections, see above."""

    fence: Fence
    lease: str  # the key

    def script(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        self.fence.check()
        return super().script(fenced(script), (*keys, self.lease), (*arguments, self.fence.token))

    def replies(self, commands: Sequence[RedisCommand]) -> list[Any]:
        if all(command[0] in _READS for command in commands):
            replies = super().replies(commands)
            if any(map(is_fenced, replies)):
                self.fence.fall("another process leads by now, or the lease of this leader has ended")
            return replies
        reply = self._as_script(commands, "each")
        return list(reply) if isinstance(reply, list) else [reply] * len(commands)

    def _as_script(self, commands: Sequence[RedisCommand], how: str) -> Any:
        """The reply of fenced_commands.lua; an error reply is returned, not raised."""
        self.fence.check()
        script, keys = fenced(_COMMANDS), [*dict.fromkeys(key for command in commands for key in _keys_in(command))]
        words = [word for command in commands for word in (len(command), *command)]
        tail = (len(keys) + 1, *keys, self.lease, how, *words, self.fence.token)
        [reply] = self.replies([("EVALSHA", script.sha, *tail)])
        if "NoScript" in type(reply).__name__:
            [reply] = self.replies([("EVAL", script.source, *tail)])
        return reply


def _keys_in(command: RedisCommand) -> RedisCommand:
    return command[1:] if command[0] in _SEVERAL_KEYS else keys_of(command)


class FencedLine(Fencing, BlockingLine):
    def __init__(self, connection: Driver, call_hastily: Callable[..., Any], fence: Fence, lease: str) -> None:
        super().__init__(connection, call_hastily)
        self.fence = fence
        self.lease = lease

    def block(self, *command: Argument, trusted: bool = False) -> Any:
        raise AssertionError("behind a fence no blocking command is sent")


class FencedConnections(Fencing, Connections):
    def __init__(self, url: str, fence: Fence, lease: str) -> None:
        super().__init__(url)
        self.fence = fence
        self.lease = lease

    def transaction(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """All or nothing, but that a command which the server refuses does not undo those before it."""
        if all(command[0] in _READS for command in commands):
            return super().transaction(commands)
        reply = self._as_script(commands, "all")
        self._raise_error(reply, keys_of(commands[0]))
        return self._checked(commands, reply)

    def blocking_line(self, longest_s: float) -> BlockingLine:
        return FencedLine(self._patient(longest_s), self.call_hastily, self.fence, self.lease)

    def waiting_line(self, longest_s: float) -> Any:
        raise AssertionError("behind a fence no blocking command is sent")
