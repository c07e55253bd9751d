"""Connections to a Redis Cluster: the node that has the slot is found, also while slots and masters change."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis as redis_py
from cluster import Cluster, Node, slot_of
from servers import free_port
from waiting import eventually

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.recoverable import Presence
from goworkers_py.brokers.contracts.transport import Push
from goworkers_py.brokers.open_broker import kind_of_broker, open_broker
from goworkers_py.brokers.redis.driver import connection, redirects
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script
from goworkers_py.brokers.redis.driver.redirects import ClusterConnections
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, BrokerUnreachable, ConfigError
from goworkers_py.policy.priorities import Ask

SEVERAL_KEYS = Path(__file__).parents[3] / "goworkers_py" / "brokers" / "redis" / "lua" / "publish.lua"
NAMESPACE, ME = "jobs", "me:1:aaaaaaaaaaaa"
A, B, NEW = (f"{{{NAMESPACE}}}:{name}" for name in ("a", "b", "new"))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, nodes may take longer to agree than a process waits for them, and a wake may take longer."""
    monkeypatch.setattr(redirects, "PAUSES_S", (*redirects.PAUSES_S, *[0.2] * 90))
    monkeypatch.setattr(connection, "HASTE_S", 20.0)


@pytest.fixture
def connections(cluster: Cluster) -> Iterator[ClusterConnections]:
    with closing(ClusterConnections(cluster.url(NAMESPACE))) as connections:
        yield connections
        connections.call("DEL", A, B, NEW)


@contextmanager
def held_up(call: Callable[[], object]) -> Iterator[list[object]]:
    """`call` runs in a thread, and has got no result when the block begins. It has ended after the block."""
    results: list[object] = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: results.append(call()))
        yield results
        running.result(30)


# --- which node


@pytest.mark.parametrize("seed", range(6))
def test_any_node_is_a_seed(cluster: Cluster, seed: int) -> None:
    with closing(ClusterConnections(cluster.url(NAMESPACE, cluster.nodes[seed]))) as connections:
        connections.call("SET", A, "1")
        assert connections.call("DEL", A) == 1


def test_a_seed_that_is_away_is_passed_over(cluster: Cluster) -> None:
    url = cluster.url(NAMESPACE).replace("://", f"://127.0.0.1:{free_port()},")
    with closing(ClusterConnections(url)) as connections:
        assert connections.call("EXISTS", A) == 0


def test_without_any_node_each_of_them_is_told_of_and_no_password() -> None:
    url = f"redis+cluster://:secret@127.0.0.1:{free_port()},127.0.0.1:{free_port()}/{NAMESPACE}"
    with (
        closing(ClusterConnections(url)) as connections,
        pytest.raises(
            BrokerUnreachable, match=r"^0 of 2 nodes of the cluster answer; .* connecting to .*; .*"
        ) as caught,
    ):
        connections.call("EXISTS", A)
    assert "secret" not in str(caught.value)


def test_a_single_server_is_told_from_a_cluster(redis_server: str) -> None:
    place = redis_server.removeprefix("redis://").partition("/")[0]
    with (
        closing(ClusterConnections(f"redis+cluster://{place}/{NAMESPACE}")) as connections,
        pytest.raises(BrokerRefused, match=f"{place} is no node of a Redis Cluster: .* write redis://{place}/0"),
    ):
        connections.call("EXISTS", A)


def test_a_node_of_a_cluster_is_told_from_a_single_server(cluster: Cluster) -> None:
    with closing(Connections(cluster.other_than(NAMESPACE).url)) as connections:
        with pytest.raises(BrokerRefused, match=r"write redis\+cluster://host:port/NAMESPACE"):
            connections.call("GET", A)
        with pytest.raises(BrokerRefused, match=r"write redis\+cluster://host:port/NAMESPACE"):
            connections.script(Script(SEVERAL_KEYS), ["a", "b"], [])


def test_namespaces_spread_over_the_nodes(cluster: Cluster) -> None:
    assert len({cluster.master_of(name) for name in ("a", "b", "c")}) == 3  # after failovers of other tests, any three
    for name in ("a", "b", "c"):
        with closing(open_broker(Config(broker=cluster.url(name)))) as broker:
            broker.transport.publish([Push("q", b"{}")])
        client = cluster.master_of(name).redis
        assert client.lrange(f"{{{name}}}:queue:q", 0, -1) == [b"{}"]
        client.delete(f"{{{name}}}:queue:q", f"{{{name}}}:queues")


# --- a slot that has moved: MOVED


def test_a_connection_follows_its_slot_without_an_error(cluster: Cluster, connections: ClusterConnections) -> None:
    connections.call("SET", A, "1")
    for _ in range(3):
        cluster.move(NAMESPACE, cluster.other_than(NAMESPACE))
        assert connections.exchange([("GET", A), ("TIME",), ("INCR", B)])[0] == b"1"
        cluster.fail_over(cluster.master_of(NAMESPACE))
        assert connections.transaction([("GET", A), ("INCR", B)])[0] == b"1"
        assert connections.script(Script(SEVERAL_KEYS), [A, B], []) == []
    assert connections.call("GET", B) == b"6"  # each command was done once


def test_scan_asks_the_node_to_which_the_slot_has_moved(cluster: Cluster, connections: ClusterConnections) -> None:
    connections.call("SET", A, "1")
    cluster.move(NAMESPACE, cluster.other_than(NAMESPACE))
    cursor, found = b"0", []
    while not found or cursor != b"0":
        cursor, some = connections.call("SCAN", cursor, "MATCH", A, "COUNT", 1_000)
        found += some
    assert found == [A.encode()]


# --- a slot on its way: ASK and TRYAGAIN


def test_single_keys_are_found_and_made_while_their_slot_is_on_its_way(
    cluster: Cluster, connections: ClusterConnections
) -> None:
    connections.exchange([("SET", A, "1"), ("SET", B, "1")])
    with cluster.moving(NAMESPACE, cluster.other_than(NAMESPACE)) as move:
        move.keys(A)
        assert connections.exchange([("INCR", A), ("INCR", B), ("INCR", NEW), ("TIME",)])[:3] == [2, 2, 1]
    assert connections.exchange([("GET", A), ("GET", B), ("GET", NEW)]) == [b"2", b"2", b"1"]


def test_a_script_and_a_transaction_wait_until_their_keys_are_at_one_node(
    cluster: Cluster, connections: ClusterConnections
) -> None:
    connections.exchange([("SET", A, "1"), ("SADD", B, "1")])
    script = lambda: connections.script(Script(SEVERAL_KEYS), [A, B], [])  # noqa: E731
    transaction = lambda: connections.transaction([("INCR", A), ("SADD", B, "2")])  # noqa: E731
    with cluster.moving(NAMESPACE, cluster.other_than(NAMESPACE)) as move:
        move.keys(A)
        with held_up(transaction) as told, held_up(script) as answer:
            assert not told
            assert not answer
            move.end()
    assert told == [[2, 1]]
    assert answer == [[]]


def test_a_move_that_does_not_end_is_an_outage(
    cluster: Cluster, connections: ClusterConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redirects, "PAUSES_S", (0.0, 0.01))
    connections.call("SET", A, "1")
    with (
        cluster.moving(NAMESPACE, cluster.other_than(NAMESPACE)),
        pytest.raises(BrokerUnavailable, match=f"slot {slot_of(NAMESPACE)} of .* is on its way to another node"),
    ):
        connections.transaction([("INCR", A), ("INCR", B)])
    assert connections.transaction([("INCR", A), ("INCR", B)]) == [2, 1]


def test_a_command_whose_reply_was_lost_is_not_sent_again(cluster: Cluster, connections: ClusterConnections) -> None:
    master = cluster.master_of(NAMESPACE)
    connections.call("SET", A, "0")
    with ThreadPoolExecutor(1) as pool:
        blocked = pool.submit(connections.call, "BLPOP", B, 10)
        assert eventually(lambda: master.redis.info("clients")["blocked_clients"] == 1)
        master.redis.execute_command("CLIENT", "KILL", "TYPE", "normal")
        assert not eventually(lambda: _blocked(master), 1.0)  # now: a second one would end by its time limit
        with pytest.raises(BrokerUnavailable):
            blocked.result(30)
    assert connections.call("INCR", A) == 1


def _blocked(node: Node) -> bool:
    try:
        return bool(node.redis.info("clients")["blocked_clients"])
    except redis_py.ConnectionError:  # killed with the others
        return False


# --- fetchers that wait


@pytest.mark.parametrize("queues", [["q"], ["q", "r"]], ids=["one queue", "a pool"])
@pytest.mark.parametrize("change", ["moved", "failed over"])
def test_a_fetcher_that_waits_follows_its_slot_and_gets_the_next_job(
    cluster: Cluster, queues: list[str], change: str
) -> None:
    namespace = f"{change.replace(' ', '-')}-{len(queues)}"
    master, asks = cluster.master_of(namespace), [(queue, 1) for queue in queues]
    with closing(open_broker(Config(broker=cluster.url(namespace)))) as broker:
        broker.recoverable.beat(Presence(ME, dict(asks)))
        with fetching(broker, asks, outages=change == "failed over") as caught:
            assert eventually(lambda: master.redis.info("clients")["blocked_clients"] == len(queues))
            if change == "moved":
                cluster.move(namespace, cluster.other_than(namespace))
            else:
                cluster.fail_over(master)
            for number in range(3):
                broker.transport.publish([Push("q", b"%d" % number)])
                assert eventually(lambda number=number: len(caught) == number + 1)
        assert caught == [b"0", b"1", b"2"]


@contextmanager
def fetching(broker: Broker, asks: list[Ask], *, outages: bool) -> Iterator[list[bytes]]:
    """Fetches in a thread; `outages`: the server may end a wait with an error."""
    stop, caught = threading.Event(), list[bytes]()

    def fetch() -> None:
        while not stop.is_set():
            try:
                caught.extend(one.payload for one in broker.transport.consume(ME, asks, 1))
            except BrokerUnavailable:
                if not outages:
                    raise
                stop.wait(0.01)

    with ThreadPoolExecutor(1) as pool:
        fetcher = pool.submit(fetch)
        try:
            yield caught
        finally:
            stop.set()
            broker.transport.wake("q")
            fetcher.result(30)


# --- the address and the option


def test_a_namespace_beside_that_of_the_address_must_be_the_same(cluster: Cluster) -> None:
    for agreed in ("", NAMESPACE, f"{{{NAMESPACE}}}"):
        config = Config(broker=cluster.url(NAMESPACE), namespace=agreed)
        kind_of_broker(config).check(config)
    config = Config(broker=cluster.url(NAMESPACE), namespace="other")
    with pytest.raises(ConfigError, match=rf"namespace: is 'other', and .*/{NAMESPACE}, .*: leave the option out"):
        kind_of_broker(config).check(config)
    config = Config(broker=cluster.url(NAMESPACE) + "?db=1")
    with pytest.raises(ConfigError, match="a cluster has no databases"):
        kind_of_broker(config).check(config)


def test_the_access_rules_are_those_of_a_cluster() -> None:
    config = Config(broker="redis+cluster://ada:secret@h:1,i:2/jobs")
    note, rules = kind_of_broker(config).access_rules(config)
    assert note.startswith("# on each node")
    assert rules.startswith("ACL SETUSER ada reset on >PASSWORD ~{jobs}:queues ")
    assert {"+cluster|slots", "+asking", "&{jobs}:pyworkers:*"} <= set(rules.split())
    assert "+select" not in rules
    assert all(re.match(r"[~&]\{jobs\}:", word) for word in rules.split() if word[0] in "~&")
