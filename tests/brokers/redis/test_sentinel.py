"""Sentinels are asked for the primary of a service."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis as redis_py
from apps import own_broker
from servers import RedisServer, free_port
from waiting import eventually

from goworkers_py.api.client import Client
from goworkers_py.brokers.redis.driver import connection
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.server.embedded_server import find_server
from goworkers_py.core.errors import BrokerUnavailable


@pytest.fixture
def sentinel(own_redis: RedisServer, tmp_path: Path) -> Iterator[str]:
    """The address of a sentinel that knows `own_redis` as the primary of the service `shop`."""
    port = free_port()
    (tmp_path / "sentinel.conf").write_text(
        f"bind 127.0.0.1\nport {port}\nsentinel monitor shop 127.0.0.1 {own_redis.port} 1\n"
    )
    command = [find_server(), "sentinel.conf", "--sentinel"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            with redis_py.Redis(port=port) as client:
                assert eventually(lambda: pings(client))
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def pings(client: redis_py.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis_py.ConnectionError:
        return False


@pytest.mark.parametrize("password", ["", "p%40ss"])
def test_sentinels_are_asked_in_turn_for_the_primary_of_a_service(
    own_redis: RedisServer, sentinel: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HASTE_S", 20.0)  # a hasty call must not fail on a busy machine
    login = f":{password}@" if password else ""
    own_redis.client().config_set("requirepass", "p@ss" if password else "")
    with closing(Connections(f"sentinel://{login}127.0.0.1:1,{sentinel}/shop/3")) as connections:
        connections.call("SET", "key", 1)
        assert connections.blocking_line(1).block("BRPOPLPUSH", "list", "other", 0.01) is None
        assert connections.call_hastily("GET", "key") == b"1"
    with closing(redis_py.Redis(port=own_redis.port, db=3, password="p@ss" if password else None)) as client:
        assert client.get("key") == b"1"


@pytest.mark.parametrize("option", ["decode_responses=true", "protocol=3"])
def test_no_option_of_the_address_changes_the_form_of_replies(
    option: str, own_redis: RedisServer, sentinel: str
) -> None:
    for address in (own_redis.url, f"sentinel://{sentinel}/shop"):
        with own_broker(f"{address}?{option}") as broker:
            Client(lambda broker=broker: broker).push("q", "J", [])  # type: ignore[misc]
            assert len(broker.transport.consume("owner", [("q", 2)], 2)) == 1
        with closing(Connections(f"{address}?{option}")) as connections:
            connections.call("HSET", "hash", "field", 1)
            assert connections.call("HGETALL", "hash") == [b"field", b"1"]


def test_a_service_that_the_sentinels_do_not_know_is_an_outage(sentinel: str) -> None:
    with closing(Connections(f"sentinel://{sentinel}/other")) as connections, pytest.raises(BrokerUnavailable):
        connections.call("PING")
