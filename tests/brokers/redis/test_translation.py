"""Errors of servers that cannot serve become ours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import redis as redis_py
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerRefused, BrokerUnavailable


@pytest.fixture
def proxied(proxy: Proxy) -> Iterator[Connections]:
    """Connections through the proxy."""
    with closing(Connections(proxy.url)) as connections:
        connections.call("PING")
        yield connections


def read_only(server: RedisServer, stack: ExitStack) -> None:
    server.client().replicaof("127.0.0.1", server.port)  # of itself: the link never comes up


def master_down(server: RedisServer, stack: ExitStack) -> None:
    server.client().config_set("replica-serve-stale-data", "no")
    server.client().config_set("replica-read-only", "no")
    read_only(server, stack)


def out_of_memory(server: RedisServer, stack: ExitStack) -> None:
    server.client().config_set("maxmemory", 1)


def too_few_replicas(server: RedisServer, stack: ExitStack) -> None:
    server.client().config_set("min-replicas-to-write", 1)


def long_script(server: RedisServer, stack: ExitStack) -> None:
    def run() -> None:
        try:
            runner.eval("while true do end", 0)
        except redis_py.ResponseError as error:
            assert "SCRIPT KILL" in str(error)  # noqa: PT017

    def kill() -> None:
        server.client().script_kill()
        thread.join()

    runner, watcher = server.client(), server.client()
    runner.config_set("lua-time-limit", 50)
    thread = threading.Thread(target=run)
    thread.start()
    stack.callback(kill)

    def is_busy() -> bool:
        try:
            watcher.ping()
        except redis_py.ResponseError:
            return True
        return False

    assert eventually(is_busy)


def cannot_save(server: RedisServer, stack: ExitStack) -> None:
    client = server.client()
    Path(client.config_get("dir")["dir"], "dump.rdb").mkdir()
    client.config_set("save", "3600 1")
    client.bgsave()
    assert eventually(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")


def loading(server: RedisServer, stack: ExitStack) -> None:
    client = server.client()
    client.config_set("aof-use-rdb-preamble", "no")
    for _ in range(10):  # each within the timeout of a client, on a busy machine too
        client.eval("for n = 1, 20000 do redis.call('INCR', 'n'); redis.call('SET', redis.call('GET', 'n'), n) end", 0)
    server.stop()
    server._options["key-load-delay"] = "100"  # microseconds, at least
    server._process = server._launch(server.port)  # without waiting for it, as start() does

    def is_loading() -> bool:
        try:
            return bool(client.info("persistence")["loading"])
        except redis_py.ConnectionError:
            return False

    assert eventually(is_loading)


def too_many_clients(server: RedisServer, stack: ExitStack) -> None:
    server.client().config_set("maxclients", 1)


def login_wanted(server: RedisServer, stack: ExitStack) -> None:
    server.client().config_set("requirepass", "secret")


def command_forbidden(server: RedisServer, stack: ExitStack) -> None:
    server.client().acl_setuser("default", enabled=True, commands=["-lpush", "-rpush"])


Trouble = Callable[[RedisServer, ExitStack], None]


PUSHES: list[Callable[[Connections, Script], object]] = [
    lambda connections, script: connections.call("LPUSH", "list", "x"),
    lambda connections, script: connections.transaction([("ECHO", "x"), ("LPUSH", "list", "x")]),
    lambda connections, script: connections.script(script, ["list"], ["x"]),
]


@pytest.mark.parametrize(
    ("trouble", "expected", "word"),
    [
        (read_only, BrokerUnavailable, "read only replica"),
        (master_down, BrokerUnavailable, "MASTER is down"),
        (out_of_memory, BrokerFull, "maxmemory"),
        (too_few_replicas, BrokerUnavailable, "good replicas"),
        (long_script, BrokerUnavailable, "busy running a script"),
        (cannot_save, BrokerUnavailable, "RDB snapshots"),
        (loading, BrokerUnavailable, "loading"),
        (too_many_clients, BrokerUnavailable, "max number of clients"),
        (login_wanted, BrokerRefused, "Authentication required"),
        (command_forbidden, BrokerRefused, "do not allow LPUSH: add [+]lpush "),
    ],
)
def test_error_replies_become_our_errors(
    own_redis: RedisServer, push_script: Script, trouble: Trouble, expected: type[BrokerError], word: str
) -> None:
    with ExitStack() as stack, closing(Connections(own_redis.url)) as connections:
        trouble(own_redis, stack)
        for push in PUSHES:
            with pytest.raises(expected, match=f"(?i){word}") as caught:
                push(connections, push_script)
            assert type(caught.value) is expected
            assert isinstance(caught.value.__cause__, redis_py.RedisError)


@pytest.mark.parametrize("trouble", [read_only, master_down])
def test_a_connection_to_a_server_that_cannot_serve_is_closed_after_its_reply(
    proxy: Proxy, proxied: Connections, own_redis: RedisServer, trouble: Trouble
) -> None:
    with ExitStack() as stack, closing(proxied.blocking_line(1)) as line:
        line.call("PING")
        trouble(own_redis, stack)
        for call in (proxied.call, line.call):
            with pytest.raises(BrokerUnavailable):
                call("LPUSH", "list", 1)
        own_redis.client().replicaof("NO", "ONE")
        for call in (proxied.call, line.call):
            call("LPUSH", "list", 1)
    assert proxy.connections == 4


def test_a_wrong_password_is_refused(own_redis: RedisServer) -> None:
    own_redis.client().config_set("requirepass", "secret")
    wrong = Connections(own_redis.url.replace("//", "//:wrong@"))
    told = "the server refused the login: .*; check user and password of the address, or broker_password_file$"
    with closing(wrong), pytest.raises(BrokerRefused, match=told):
        wrong.call("PING")
    with closing(Connections(own_redis.url.replace("//", "//:secret@"))) as connections:
        assert connections.call("PING") == b"PONG"
