"""Exchanges with a Redis Cluster, whose nodes may say that they do not serve our slot.

The server runs no part of a command that it answers so. Such a command is sent again, and no other: a command whose
reply was lost is never repeated.

    MOVED      another node has the slot       sent again there
    ASK        the slot is on its way, and this key is at its new node, or nowhere
                                               sent again there, after ASKING; fetchers wait for the end of the move
    TRYAGAIN   the slot is on its way, and the command's keys are at two nodes, or nowhere
                                               sent again until the slot has arrived
    CLUSTERDOWN  the node is cut off, or no node has the slot, as for a moment in a failover
                                               sent again to the master that the nodes name

All keys of a transaction are in our slot. So when one of its commands is answered so, all are dropped, and all are sent
again. Other commands that were sent together may be done in another order then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import AskError, ClusterDownError, MovedError, TryAgainError

from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.cluster import Address, ClusterNodes
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Driver, Exchanges, RedisCommand, converse
from goworkers_py.brokers.redis.driver.waiting_line import WaitingLine
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerUnavailable

# Pauses before a command is sent again: 2 s in all. The first ones are for nodes that do not agree yet.
PAUSES_S = (0.0, 0.0, 0.005, 0.01, 0.02, 0.05, 0.1, *[0.2] * 9)


class _Redirected(Exchanges):
    """Before a class of exchanges: sends again what a node has not done."""

    @property
    def _nodes(self) -> ClusterNodes:
        raise NotImplementedError

    def replies(self, commands: Sequence[RedisCommand]) -> list[Any]:
        replies = super().replies(commands)
        why = self._redirect(replies)
        for pause_s in PAUSES_S:
            if why is None:
                return replies
            machine.sleep(pause_s)  # of a worker too, when its job pushes: its thread may wait on no lock
            whole = commands[0][0] == "MULTI"
            places = [place for place, reply in enumerate(replies) if whole or type(reply) is type(why)]
            for place, reply in zip(places, self._again([commands[place] for place in places], why), strict=True):
                replies[place] = reply
            why = self._redirect(replies)
        if why is None or type(why) is ClusterDownError:
            return replies
        raise BrokerUnavailable(
            f"slot {self._nodes.slot} of the cluster, that of namespace {self._nodes.namespace}, is on its way to "
            "another node: `redis-cli --cluster check` tells whether somebody moves it"
        )

    def _redirect(self, replies: Sequence[Any]) -> Any:
        return next(filter(self._is_redirect, replies), None)

    def _is_redirect(self, reply: Any) -> bool:
        """`probes` names keys of another slot, which are never used."""
        kind = type(reply)
        return kind in (TryAgainError, ClusterDownError) or (
            kind in (MovedError, AskError) and reply.slot_id == self._nodes.slot
        )

    def _again(self, commands: Sequence[RedisCommand], why: Any) -> list[Any]:
        if type(why) is MovedError:
            self._nodes.moved(why.node_addr)
        return super().replies(commands)


class ClusterConnections(_Redirected, Connections):
    @property
    def _nodes(self) -> ClusterNodes:
        nodes: ClusterNodes = self._options["nodes"]
        return nodes

    def blocking_line(self, longest_s: float) -> BlockingLine:
        return ClusterBlockingLine(self._patient(longest_s), self.call_hastily)

    def waiting_line(self, longest_s: float) -> WaitingLine:
        return _ClusterWaitingLine(self._patient(longest_s), self.call_hastily)

    def replies(self, commands: Sequence[RedisCommand]) -> list[Any]:
        if commands and commands[0][0] == "SCAN":  # a node that lost the slot does not refuse it, for it names no key
            super().replies([("EXISTS", self._nodes.tag)])
        return super().replies(commands)

    def _again(self, commands: Sequence[RedisCommand], why: Any) -> list[Any]:
        if type(why) is not AskError or not why.host.strip("?"):
            return super()._again(commands, why)
        return self._ask(why.node_addr, commands)

    def _ask(self, node: Address, commands: Sequence[RedisCommand]) -> list[Any]:
        """A node obeys one command or one transaction after ASKING, though the slot has not arrived."""
        connection = self._make(**self._options, at=node)
        try:
            exchanges = [commands] if commands[0][0] == "MULTI" else [[command] for command in commands]
            replies = []
            for exchange in exchanges:
                converse(connection, [("ASKING",)])
                replies += converse(connection, exchange)
            return replies
        finally:
            connection.disconnect()


class _Line(_Redirected):
    """Before a class of lines, whose blocking commands a node ends when their slot leaves it."""

    trusted: bool

    _connection: Driver

    @property
    def _nodes(self) -> ClusterNodes:
        nodes: ClusterNodes = self._connection.nodes
        return nodes

    def _checked(self, commands: Sequence[RedisCommand], replies: list[Any]) -> list[Any]:
        """Here only the reply of a blocking command can be of these kinds. It counts as none in time. The line is not
        trusted any more, so the next command is fetch.lua, which finds the slot or waits for it."""
        for place, reply in enumerate(replies):
            if self._is_redirect(reply) and type(reply) is not ClusterDownError:
                self.trusted = False
                replies[place] = None
                if type(reply) is MovedError:
                    self._nodes.moved(reply.node_addr)
        return super()._checked(commands, replies)


class ClusterBlockingLine(_Line, BlockingLine):
    pass


class _ClusterWaitingLine(_Line, WaitingLine):
    pass
