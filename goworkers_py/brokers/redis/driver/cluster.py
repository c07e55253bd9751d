"""The nodes of a Redis Cluster, and connections to the node that has our slot.

All keys of one namespace are in one slot, so a connection leads to the master of that slot. Which node that is, any
node tells. The answer is kept until a connection breaks or cannot be made, or until a node says MOVED: see `redirects`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.connection import Connection, ConnectionPool, SSLConnection
from redis.crc import key_slot

from goworkers_py.brokers.redis.driver.sentinel import options_in
from goworkers_py.config.cluster_address import ClusterAddress

# Short: when a node does not answer, the next one is asked. With all of them away, a thread gives up after some.
ASK_TIMEOUT_S = 1.0
ASKED_AT_ONCE = 5

Address = tuple[str, int]


class ClusterNodes:
    """Where the master of our slot is. Any thread may use it: each field is replaced as a whole, in one step."""

    def __init__(self, address: ClusterAddress, make: Callable[..., Any], options: dict[str, Any]) -> None:
        self.namespace = address.namespace
        self.tag = address.tagged_namespace
        self.slot: int = key_slot(self.tag.encode())
        self._make = make
        self._options = {**options, "socket_timeout": ASK_TIMEOUT_S, "socket_connect_timeout": ASK_TIMEOUT_S}
        self._seeds = address.seeds
        self._nodes: Sequence[Address] = address.seeds  # in the order in which they are asked
        self.known: Address | None = None  # the master, as far as we know

    def master(self) -> Address:
        known = self.known
        if known is None:
            self.known = known = self._ask_around()
        return known

    def moved(self, to: Address) -> None:
        """A node says where the master is. It may leave out its own host; then the nodes are asked."""
        self.known = to if to[0].strip("?") else None

    def doubt(self) -> None:
        """The master may be another one. The next node to be asked is another one too: the last one may be cut off
        from the cluster, and not know it."""
        self.known = None
        self._nodes = [*self._nodes[1:], *self._nodes[:1]]

    def _ask_around(self) -> Address:
        nodes, failures = self._nodes, list[Exception]()
        for node in nodes[:ASKED_AT_ONCE]:
            try:
                ranges = self._ask(node)
            except redis.AuthenticationError:
                raise
            except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
                failures.append(error)
                continue
            return self._learn(node, ranges)
        self._nodes = [*nodes[ASKED_AT_ONCE:], *nodes[:ASKED_AT_ONCE]]
        known = f"0 of {len(failures)} nodes of the cluster answer"
        # The cause tells `translation` of a certificate that is not accepted: to wait for that one would be in vain.
        raise redis.ConnectionError("; ".join([known, *map(str, failures)])) from failures[-1]

    def _ask(self, node: Address) -> Sequence[Any]:
        """The ranges of slots: each has its first and last slot, and its nodes, the master before its replicas."""
        connection = self._make(host=node[0], port=node[1], **self._options)
        try:
            connection.connect()
            connection.send_command("CLUSTER", "SLOTS")
            ranges: Sequence[Any] = connection.read_response()
            return ranges
        except redis.ResponseError as error:
            if "cluster support disabled" not in str(error):
                raise
            told_where = "{}:{}".format(*node)
            raise redis.ResponseError(
                f"{told_where} is no node of a Redis Cluster: for a single server, write redis://{told_where}/0"
            ) from error
        finally:
            connection.disconnect()

    def _learn(self, asked: Address, ranges: Sequence[Any]) -> Address:
        found = {(first, last): [_address(node, asked) for node in nodes] for first, last, *nodes in ranges}
        others = [node for nodes in found.values() for node in nodes]
        self._nodes = [*dict.fromkeys([asked, *others, *self._seeds])]
        for (first, last), nodes in found.items():
            if first <= self.slot <= last:
                return nodes[0]
        raise redis.ConnectionError(f"no node of the cluster has slot {self.slot}, that of namespace {self.namespace}")


def _address(node: Sequence[Any], asked: Address) -> Address:
    """A node that does not tell its host has the host at which it was asked."""
    host = (node[0] or b"").decode().strip("?")
    return host or asked[0], int(node[1])


class _LeadsToMaster:
    """Before a class of redis-py's connections. Of its own accord it leads to the master, else to the node `at`."""

    host: str
    port: int

    def __init__(self, nodes: ClusterNodes, at: Address | None = None, **options: Any) -> None:
        self.nodes = nodes
        self._at = at
        self._leads_to: Address | None = None  # while it is connected
        super().__init__(**options)

    def connect(self) -> None:
        """Called before each exchange. A connection that leads to a former master is made anew; nothing was sent on it
        that is unanswered."""
        wanted = self._at or (self.nodes.master() if self._leads_to is None else self.nodes.known)
        if self._leads_to is not None:
            if wanted is None or wanted == self._leads_to:
                return
            self._end()
            wanted = self._at or self.nodes.master()
        assert wanted is not None
        self.host, self.port = wanted
        try:
            super().connect()  # type: ignore[misc]
        except BaseException:
            self.nodes.doubt()
            raise
        self._leads_to = wanted

    def disconnect(self, *args: Any, **options: Any) -> None:
        """By the driver or by us, after an error or at the end: who connects next asks where the master is."""
        if self._leads_to is not None and self._leads_to == self.nodes.known:
            self.nodes.doubt()
        self._end(*args, **options)

    def _end(self, *args: Any, **options: Any) -> None:
        self._leads_to = None
        super().disconnect(*args, **options)  # type: ignore[misc]


class _ClusterConnection(_LeadsToMaster, Connection):
    pass


class _ClusterSSLConnection(_LeadsToMaster, SSLConnection):
    pass


def cluster_pool(url: str, **options: Any) -> ConnectionPool:
    """Raises ValueError for an address that cannot be right."""
    address = ClusterAddress.of(url)
    scheme, make = ("rediss", SSLConnection) if address.tls else ("redis", Connection)
    own = options_in(f"{scheme}://{address.login}@node?{address.query}")
    for name in ("host", "port", "connection_class"):
        own.pop(name, None)
    if "db" in own:
        raise ValueError("a cluster has no databases: leave out ?db=")
    options = {**options, **own}
    nodes = ClusterNodes(address, make, options)
    return ConnectionPool(_ClusterSSLConnection if address.tls else _ClusterConnection, nodes=nodes, **options)
