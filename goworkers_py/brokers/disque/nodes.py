"""The nodes of a Disque cluster: one is used as long as it works, then the next one.

Any node takes pushes, hands out jobs and takes acknowledgements. So all threads use the same node, and the thread that
finds it gone moves all of them. A command is sent to another node only when it was certainly not sent to the first one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import redis

from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import RedisCommand
from goworkers_py.brokers.redis.driver.translation import translated
from goworkers_py.core.errors import BrokerUnavailable, BrokerUnreachable

# Error replies of a node that cannot serve now. OOM and BUSY are those of Redis, too.
_TEMPORARY = re.compile(r"(NOREPL|LEAVING|MAXLEN)\b")
_PAUSED = re.compile(r"PAUSED\b")
_LEAVING = re.compile(r"LEAVING\b")


class Nodes:
    def __init__(self, addresses: Sequence[str]) -> None:
        self._all = [Connections(address) for address in addresses]
        self._at = 0  # any thread; assigned in one step

    @property
    def current(self) -> int:
        return self._at

    def exchange(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """Sends commands to one node. Returns all replies, errors among them."""
        for _ in self._all[1:]:
            try:
                return self._ask(self._at, commands)
            except BrokerUnreachable:
                pass
        return self._ask(self._at, commands)

    def call_at(self, node: int, *command: Any) -> Any:
        """Over a new connection, for a thread that cannot wait for a node that hangs."""
        return self._all[node].call_hastily(*command)

    def line(self, node: int, longest_s: float) -> BlockingLine:
        """A connection of its own to a node, for commands that wait."""
        return self._all[node].blocking_line(longest_s)

    def leave(self, node: int) -> None:
        """That node does not work: all threads use the next one from now on."""
        if self._at == node:
            self._at = (node + 1) % len(self._all)

    def _ask(self, node: int, commands: Sequence[RedisCommand]) -> list[Any]:
        try:
            replies = self._all[node].replies(commands)
        except BrokerUnavailable:
            self.leave(node)
            raise
        self.heed(node, replies)
        return replies

    def heed(self, node: int, replies: Sequence[object]) -> None:
        """Leaves a node that says in one of its replies that it leaves its cluster."""
        if any(_LEAVING.match(refusal_in(reply)) for reply in replies):
            self.leave(node)

    def close(self) -> None:
        for connections in self._all:
            connections.close()


def refusal_in(reply: object) -> str:
    """The text of an error reply; empty for another reply."""
    return str(reply) if isinstance(reply, redis.ResponseError) else ""


def checked(reply: Any) -> Any:
    """The reply, if it is no error."""
    if isinstance(reply, redis.ResponseError):
        raise error_of(reply) from reply
    return reply


def error_of(reply: redis.ResponseError) -> BaseException:
    if _PAUSED.match(str(reply)):
        return BrokerUnavailable(f"{reply}: a queue takes no jobs until somebody sends PAUSE QUEUE none")
    if _TEMPORARY.match(str(reply)):
        return BrokerUnavailable(f"{reply}: look at the nodes with CLUSTER NODES, or lower ?replicate= in the address")
    return translated(reply)
