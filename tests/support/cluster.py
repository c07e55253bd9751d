"""A Redis Cluster of three masters with a replica each, on loopback."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import redis
from redis.crc import key_slot
from servers import RedisServer, free_port
from waiting import eventually

SLOTS = 16_384
MASTERS = 3
# Shorter, and on a busy machine nodes take each other for dead that live.
NODE_TIMEOUT_MS = 2_000
# Of a cluster whose nodes all run on. After a pause of the machine they take each other for dead all the same, and a
# replica would take over, without the last jobs. It still does so by hand.
RUNS_ON = {"cluster_replica_no_failover": "yes"}


class Node(RedisServer):
    def __init__(self, **options: str) -> None:
        self.bus = free_port()
        # Nodes that talk TLS to each other, by `tls_cluster`, also serve clients over TLS.
        self.tls_port = free_port() if "tls_cluster" in options else 0
        if self.tls_port:
            options = {**options, "tls_port": str(self.tls_port)}
        super().__init__(
            cluster_enabled="yes",
            cluster_port=str(self.bus),
            cluster_node_timeout=str(NODE_TIMEOUT_MS),
            cluster_allow_replica_migration="no",
            repl_diskless_sync_delay="0",
            **options,
        )
        # One for all questions: a server that was killed and came back is met by the next question but one.
        self.redis = self.client()

    @property
    def runs(self) -> bool:
        return self._process is not None

    @property
    def id(self) -> str:
        return str(self.cluster("MYID").decode())

    def cluster(self, *words: str | int) -> Any:
        return self.redis.execute_command("CLUSTER", *words)

    @property
    def replication(self) -> dict[str, Any]:
        told: dict[str, Any] = self.redis.info("replication")
        return told

    @property
    def is_master(self) -> bool:
        return bool(self.replication["role"] == "master")

    def has(self, slot: int) -> bool:
        """As it sees it itself."""
        return any(
            first <= slot <= last and master[1] == self.port for first, last, master, *_ in self.cluster("SLOTS")
        )

    @property
    def view(self) -> tuple[str, str]:
        """The epoch and the slots of the cluster, as this node sees them."""
        [epoch] = re.findall(r"cluster_current_epoch:\d+", self.cluster("INFO").decode())
        return epoch, str(sorted(map(str, self.cluster("SLOTS"))))

    def is_well(self) -> bool:
        told = self.cluster("INFO").decode()
        whole = "cluster_state:ok" in told and f"cluster_slots_ok:{SLOTS}" in told
        return whole and (self.is_master or self.replication.get("master_link_status") == "up")


class Cluster(AbstractContextManager["Cluster"]):
    """`nodes[0..2]` are the masters at the start, `nodes[3..5]` their replicas, in this order."""

    def __init__(self, replicas: bool = True, **options: str) -> None:
        self._stack = ExitStack()
        self.nodes: list[Node] = []
        self._elected: dict[Node, float] = {}  # by hand: when
        self._timeout_ms = NODE_TIMEOUT_MS
        try:
            for _ in range(2 * MASTERS if replicas else MASTERS):
                self.nodes.append(Node(**options))
                self._stack.callback(self.nodes[-1].close)
            self._form()
        except BaseException:
            self.close()
            raise

    def _form(self) -> None:
        first, *others = self.nodes
        for number, node in enumerate(self.nodes):
            node.cluster("SET-CONFIG-EPOCH", number + 1)
            if number < MASTERS:
                node.cluster("ADDSLOTS", *range(SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS))
        for node in others:
            first.cluster("MEET", "127.0.0.1", node.port, node.bus)
        # A replica must know its master.
        assert eventually(
            lambda: all(len(node.cluster("NODES").splitlines()) == len(self.nodes) for node in others), 30
        )
        for replica, master in zip(self.nodes[MASTERS:], self.nodes, strict=False):
            assert eventually(lambda replica=replica, master=master: self._replicates(replica, master), 30)
        self.await_whole()

    @staticmethod
    def _replicates(replica: Node, master: Node) -> bool:
        try:
            return bool(replica.cluster("REPLICATE", master.id) == b"OK")
        except redis.ResponseError:  # the handshake of the two is not over
            return False

    # --- what is where

    def url(self, namespace: str, *seeds: Node) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in seeds or self.nodes)
        return f"redis+cluster://{hosts}/{namespace}"

    def master_of(self, namespace: str) -> Node:
        return next(node for node in self.living if node.is_master and node.has(slot_of(namespace)))

    def replica_of(self, master: Node) -> Node:
        return next(
            node for node in self.living if not node.is_master and node.replication["master_port"] == master.port
        )

    def other_than(self, namespace: str) -> Node:
        """A master that does not have its slot."""
        master = self.master_of(namespace)
        return next(node for node in self.living if node.is_master and node is not master)

    @property
    def living(self) -> list[Node]:
        return [node for node in self.nodes if node.runs]

    def await_whole(self, timeout_s: float = 60) -> None:
        """Waits until all living nodes find the cluster whole, and each replica is up to date."""

        def whole() -> bool:
            try:
                return len({node.view for node in self.living}) == 1 and all(node.is_well() for node in self.living)
            except redis.RedisError:
                return False

        assert eventually(whole, timeout_s), "\n".join(node.log for node in self.nodes)

    # --- what happens to it

    def take_for_dead_after(self, timeout_ms: int) -> None:
        """From now on a node takes another one for dead that is silent for so long."""
        if timeout_ms != self._timeout_ms:
            for node in self.living:
                node.redis.config_set("cluster-node-timeout", timeout_ms)
            self._timeout_ms = timeout_ms

    def fail_over(self, master: Node) -> Node:
        """By hand: the replica takes over in agreement with its master. Returns the new master."""
        self.take_for_dead_after(NODE_TIMEOUT_MS)
        self.await_whole()  # else the others may refuse to vote
        replica = self.replica_of(master)
        # For so long a node counts the votes of its last election, and would win the next one without a new epoch.
        again_at = self._elected.get(replica, 0.0) + 4.5 * NODE_TIMEOUT_MS / 1_000
        assert eventually(lambda: time.monotonic() > again_at)
        replica.cluster("FAILOVER")
        assert eventually(lambda: replica.is_master and not master.is_master, 30), replica.log
        self._elected[replica] = time.monotonic()
        return replica

    def kill(self, master: Node) -> Node:
        """Returns the replica that takes over."""
        replica = self.replica_of(master)
        master.kill()
        assert eventually(lambda: replica.is_master, 60), replica.log
        return replica

    def move(self, namespace: str, to: Node) -> None:
        """Moves the slot of a namespace, as `redis-cli --cluster reshard` does."""
        with self.moving(namespace, to):
            pass

    @contextmanager
    def moving(self, namespace: str, to: Node) -> Iterator[Move]:
        """The slot is on its way in the block, and has arrived after it."""
        self.await_whole()
        move = Move(slot_of(namespace), self.master_of(namespace), to)
        try:
            yield move
        finally:
            move.end()

    def close(self) -> None:
        self._stack.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class Move:
    """A slot on its way from the node that has it to another one."""

    def __init__(self, slot: int, source: Node, target: Node) -> None:
        self.slot, self.source, self.target = slot, source, target
        target.cluster("SETSLOT", slot, "IMPORTING", source.id)
        source.cluster("SETSLOT", slot, "MIGRATING", target.id)

    def keys(self, *some: str) -> int:
        """Moves these keys, or all that are at the source now. Returns how many."""
        found = some or self.source.cluster("GETKEYSINSLOT", self.slot, 1_000)
        if found:
            port = self.target.tls_port or self.target.port
            self.source.redis.execute_command("MIGRATE", "127.0.0.1", port, "", 0, 10_000, "KEYS", *found)
        return len(found)

    def end(self) -> None:
        while self.keys():
            pass
        for node in (self.target, self.source):  # in this order: until the source knows, it sends clients there
            node.cluster("SETSLOT", self.slot, "NODE", self.target.id)


def slot_of(namespace: str) -> int:
    return int(key_slot(f"{{{namespace}}}".encode()))
