"""Tests of the proxy: with a fault that does not happen, every test of a fault would pass."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
import redis as redis_py
from proxy import Direction, Proxy, end_of_one
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers import RedisServer
from waiting import eventually

SILENCE_S = 0.3


@pytest.fixture
def proxy(own_redis: RedisServer) -> Iterator[Proxy]:
    with Proxy(own_redis.port) as proxy:
        yield proxy


@contextlib.contextmanager
def connected(proxy: Proxy, waits_s: float) -> Iterator[redis_py.Redis]:
    with redis_py.Redis(port=proxy.port, retry=Retry(NoBackoff(), 0), socket_timeout=waits_s) as client:
        yield client


@pytest.fixture
def client(proxy: Proxy) -> Iterator[redis_py.Redis]:
    with connected(proxy, 20) as client:
        client.ping()
        yield client


@pytest.fixture
def impatient(proxy: Proxy) -> Iterator[redis_py.Redis]:
    """A client that soon takes its connection for silent. On a busy machine perhaps its first one too."""
    with connected(proxy, SILENCE_S) as client:
        assert eventually(lambda: answers(client))
        yield client


def answers(client: redis_py.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis_py.TimeoutError:
        return False


@pytest.fixture
def server(own_redis: RedisServer) -> redis_py.Redis:
    return own_redis.client()


def test_commands_and_replies_pass_and_are_counted(proxy: Proxy, client: redis_py.Redis) -> None:
    with client.pipeline() as pipeline:
        for number in range(300):
            pipeline.rpush("list", number, "x" * 1_000)
        pipeline.execute()
    assert len(client.lrange("list", 0, -1)) == 600
    assert (proxy.commands[b"RPUSH"], proxy.commands[b"EXEC"], proxy.commands[b"LRANGE"]) == (300, 1, 1)
    assert proxy.replies == proxy.commands
    assert (proxy.connections, proxy.open, proxy.hits) == (1, 1, 0)


@pytest.mark.parametrize("after_bytes", [0, 3])
def test_a_dropped_reply_belongs_to_a_command_that_was_done(
    proxy: Proxy, client: redis_py.Redis, server: redis_py.Redis, after_bytes: int
) -> None:
    proxy.drop_reply_of(b"incrby", after_bytes=after_bytes)
    client.set("n", 41_000)
    with pytest.raises(redis_py.ConnectionError):
        client.incrby("n", 1_000)
    assert server.get("n") == b"42000"
    assert client.incrby("n", 1) == 42_001
    assert (proxy.commands[b"INCRBY"], proxy.replies[b"INCRBY"], proxy.connections) == (2, 1, 2)


def test_a_dropped_command_was_not_done(proxy: Proxy, client: redis_py.Redis, server: redis_py.Redis) -> None:
    proxy.drop_command(b"CONFIG RESETSTAT", times=2)
    client.config_get("port")
    for _ in range(2):
        with pytest.raises(redis_py.ConnectionError):
            client.config_resetstat()
    assert "cmdstat_config|resetstat" not in server.info("commandstats")
    client.config_resetstat()
    assert proxy.hits == 2


@pytest.mark.parametrize("direction", Direction)
def test_a_delay_holds_up_only_its_command_or_reply(proxy: Proxy, client: redis_py.Redis, direction: Direction) -> None:
    proxy.delay(0.2, b"GET", direction)
    begin = time.monotonic()
    client.set("key", 1)
    client.get("key")
    assert time.monotonic() - begin >= 0.2


def test_a_delayed_command_arrives_after_its_sender_has_gone(
    proxy: Proxy, impatient: redis_py.Redis, server: redis_py.Redis
) -> None:
    proxy.delay(SILENCE_S + 4, b"INCRBY", Direction.COMMAND)  # long enough to look at the server before
    with pytest.raises(redis_py.TimeoutError):
        impatient.incrby("n", 1)
    assert server.get("n") is None
    assert eventually(lambda: server.get("n") == b"1")


@pytest.mark.parametrize("direction", [None, *Direction])
def test_a_silent_connection_stays_open_and_passes_nothing_on(
    proxy: Proxy, impatient: redis_py.Redis, server: redis_py.Redis, direction: Direction | None
) -> None:
    proxy.swallow(direction=direction)
    for _ in range(2):
        with pytest.raises(redis_py.TimeoutError):
            impatient.incrby("n", 1)
    arrived = b"1" if direction is Direction.REPLY else None  # the second connection is not used for the command
    assert eventually(lambda: server.get("n") == arrived)
    proxy.pass_through()
    with connected(proxy, 20) as client:
        client.set("n", 6)
        assert client.incrby("n", 1) == 7


def test_the_server_does_not_learn_that_a_client_behind_a_silent_connection_has_gone(
    proxy: Proxy, own_redis: RedisServer, server: redis_py.Redis
) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.sendall(b"BLPOP list 0\r\n")  # an inline command, as a person types it
        assert eventually(lambda: server.info("clients")["blocked_clients"] == 1)
        proxy.swallow()
        client.sendall(b"PING\r\n")
        assert eventually(lambda: proxy.hits)
    server.rpush("list", 1)
    assert eventually(lambda: server.llen("list") == 0)
    assert proxy.open == 1
    proxy.pass_through()
    assert eventually(lambda: proxy.open == 0)


def test_a_cut_ends_every_connection_and_new_ones_work(proxy: Proxy, client: redis_py.Redis) -> None:
    proxy.cut()
    with contextlib.suppress(redis_py.ConnectionError):
        client.ping()
    assert client.ping()
    assert proxy.connections == 2


def test_a_refusing_proxy_is_like_a_server_that_is_down(proxy: Proxy, client: redis_py.Redis) -> None:
    proxy.refuse()
    for _ in range(3):
        with pytest.raises(redis_py.ConnectionError):
            client.ping()
    assert proxy.connections == 1
    proxy.pass_through()
    assert client.ping()


def test_a_stopped_server_is_a_connection_error(proxy: Proxy, client: redis_py.Redis, own_redis: RedisServer) -> None:
    own_redis.kill()
    for _ in range(2):
        with pytest.raises(redis_py.ConnectionError):
            client.ping()
    own_redis.start()
    assert client.ping()


@pytest.mark.parametrize(
    "message",
    [
        b"+OK\r\n", b"-ERR no\r\n", b":1\r\n", b"$3\r\nabc\r\n", b"$0\r\n\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n",
        b"*2\r\n$1\r\na\r\n*1\r\n:5\r\n", b"_\r\n", b"#t\r\n", b",1.5\r\n", b"(1\r\n", b"=5\r\ntxt:x\r\n",
        b"%1\r\n+a\r\n:1\r\n", b"~1\r\n+a\r\n", b">2\r\n+a\r\n+b\r\n", b"|1\r\n+ttl\r\n:9\r\n:2\r\n", b"PING\r\n",
    ],
)  # fmt: skip
def test_a_message_is_found_whole_however_much_of_it_is_there(message: bytes) -> None:
    for length in range(len(message)):
        assert end_of_one(b"xx" + message[:length], 2) is None
    assert end_of_one(b"xx" + message + b"*1\r\n", 2) == 2 + len(message)
