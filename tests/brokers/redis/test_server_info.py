"""Version and memory of Redis servers: of one, by a socket, in a cluster, behind sentinels, without rights."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from apps import own_broker
from cluster import Cluster
from denied import Walled
from sentinels import Sentinels
from servers import RedisServer

from goworkers_py.brokers.contracts.fleet import ServerFacts
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.brokers.redis.driver.server_info import facts_of
from goworkers_py.config.options import Config

MB = 1 << 20


def only(address: str, **options: Any) -> ServerFacts:
    with closing(open_broker(Config(broker=address, **options))) as broker:
        (facts,) = broker.admin.servers()
        return facts


def test_a_server_tells_its_version_uptime_clients_and_memory(own_redis: RedisServer) -> None:
    client = own_redis.client()
    client.config_set("maxmemory", 64 * MB)
    client.set("large", b"x" * 8 * MB)
    client.delete("large")
    facts, told = only(own_redis.url), client.info()
    assert (facts.address, facts.role) == (f"127.0.0.1:{own_redis.port}", "master")
    assert facts.version == told.get("valkey_version", told["redis_version"])
    assert facts.product == ("Valkey" if "valkey_version" in told else "Redis")
    assert facts.uptime_s == pytest.approx(told["uptime_in_seconds"], abs=5)
    assert facts.clients == 2, "the one that asks, and the client of this test"
    assert facts.memory_bytes == pytest.approx(told["used_memory"], abs=2 * MB)
    assert facts.peak_bytes > facts.memory_bytes + 4 * MB
    assert facts.max_bytes == 64 * MB


def test_a_server_without_a_limit_has_none(redis_url: str) -> None:
    assert only(redis_url).max_bytes is None


def test_no_password_is_shown(own_redis: RedisServer) -> None:
    own_redis.client().config_set("requirepass", "secret")
    facts = only(own_redis.url.replace("//", "//default:secret@"))
    assert facts.address == f"127.0.0.1:{own_redis.port}"
    assert "secret" not in str(facts)


def test_an_address_of_ipv6_is_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goworkers_py.brokers.redis.driver.connection.converse", lambda connection, commands: [b""])
    assert only("redis://:secret@[::1]:6390/3").address == "[::1]:6390"


def test_a_server_behind_a_socket_has_its_path(tmp_path: Path) -> None:
    address = only("embedded", data_dir=str(tmp_path / "data")).address
    assert address.startswith("/")
    assert not address.endswith(":")


def test_a_server_that_does_not_allow_it_tells_nothing_and_fails_nothing(denied_server: RedisServer) -> None:
    walled = Walled(denied_server)
    walled.allow_all_but("INFO")
    with own_broker(walled.url) as broker:
        assert broker.admin.servers() == []
        walled.allow_all_but()
        assert len(broker.admin.servers()) == 1


def test_a_cluster_tells_of_the_node_that_has_the_jobs(cluster: Cluster) -> None:
    facts = only(cluster.url("jobs"))
    assert facts.role == "master"
    assert facts.address in {f"127.0.0.1:{node.port}" for node in cluster.nodes if node.is_master}


@pytest.mark.slow
def test_behind_sentinels_the_primary_tells(server_program: str) -> None:
    with Sentinels() as sentinels:
        facts = only(sentinels.url)
        assert (facts.address, facts.role) == (f"127.0.0.1:{sentinels.primary.port}", "master")


class Odd:
    """Connections to a server that tells what the test says."""

    def __init__(self, *lines: bytes) -> None:
        self._told = b"\r\n".join((b"# Server", *lines))

    def call_at(self, *command: str) -> tuple[str, bytes]:
        return "hosted:6379", self._told


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        ((), ("Redis", "", "", None, None, None, None, None)),
        (
            (b"redis_version:7.2.4", b"valkey_version:8.1.0", b"role:slave", b"uptime_in_seconds:-1",
             b"connected_clients:many", b"used_memory:\xb2", b"used_memory_peak:17", b"maxmemory:0"),
            ("Valkey", "8.1.0", "replica", None, None, None, 17, None),
        ),
    ],
)  # fmt: skip
def test_what_a_server_leaves_out_or_tells_oddly_is_not_known(lines: tuple[bytes, ...], facts: tuple[Any, ...]) -> None:
    assert facts_of(Odd(*lines)) == [ServerFacts("hosted:6379", *facts)]  # type: ignore[arg-type]


def test_a_look_leaves_no_connection_behind(own_redis: RedisServer, redis: redis_py.Redis) -> None:
    client = own_redis.client()
    with own_broker(own_redis.url) as broker:
        for _ in range(5):
            broker.admin.servers()
        assert client.info("clients")["connected_clients"] <= 2
