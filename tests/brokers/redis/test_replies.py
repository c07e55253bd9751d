"""Replies of a wrong kind: damaged on their way, or those of another command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apps import in_progress, own_app, working
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import LUA, Script
from goworkers_py.config.options import QueueConfig
from goworkers_py.core.errors import BrokerUnavailable

NUMBER, TEXT, NUMBERS = b":7\r\n", b"+OK\r\n", b"*1\r\n:7\r\n"

# Of a settlement without effects, which has words of none.
SCRIPTS = {name: Script(LUA / f"{name}.lua", words=()) for name in ("fetch", "settle_rows", "due", "promote", "beat")}


@pytest.fixture
def proxy(own_redis: RedisServer) -> Iterator[Proxy]:
    with Proxy(own_redis.port) as proxy:
        yield proxy


@pytest.mark.parametrize("reply", [NUMBER, TEXT, NUMBERS])
@pytest.mark.parametrize("command", [*SCRIPTS, "BRPOPLPUSH", "LRANGE", "HGETALL", "SMEMBERS", "CLIENT ID"])
def test_jobs_are_run_once_though_replies_are_damaged(
    command: str, reply: bytes, proxy: Proxy, own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    if (command, reply) in (("BRPOPLPUSH", TEXT), ("CLIENT ID", NUMBER)):
        pytest.skip("this reply might be one of the command's own")
    ran: list[int] = []
    aim = f"EVALSHA {SCRIPTS[command].sha}" if command in SCRIPTS else command
    with own_app(proxy.url, QueueConfig("q", concurrency=2), poll_interval="0.05", timeout=20) as app:
        app.job("J")(ran.append)
        proxy.damage_reply_of(aim.encode(), reply, times=2)
        with working(app):
            for first in (0, 6):
                for number in range(first, first + 5):
                    app.enqueue("q", "J", [number])
                app.enqueue_in("q", "J", 0.01, [first + 5])
                assert eventually(lambda end=first + 6: len(ran) == end, 30), caplog.text  # type: ignore[misc]
                proxy.damage_reply_of(aim.encode(), reply, times=2)
            # The thread that sends this command may begin after all jobs have run.
            assert eventually(lambda: "Redis cannot serve: the reply to" in caplog.text)
        proxy.pass_through()
    assert sorted(ran) == list(range(12))
    assert proxy.hits
    assert "starting it again" not in caplog.text
    assert "Redis cannot serve: the reply to" in caplog.text
    assert not in_progress(own_redis.client())


@pytest.mark.parametrize("reply", [NUMBER, b"*0\r\n", b"*1\r\n+OK\r\n", b"$-1\r\n"])
def test_a_transaction_whose_reply_is_damaged_may_be_done_or_not(
    reply: bytes, proxy: Proxy, own_redis: RedisServer
) -> None:
    connections = Connections(proxy.url)
    proxy.damage_reply_of(b"EXEC", reply)
    with pytest.raises(BrokerUnavailable, match=r"the reply to (EXEC|SADD) was damaged on its way"):
        connections.transaction([("SADD", "a", "b")])
    assert own_redis.client().scard("a") == 1
    assert connections.transaction([("SADD", "a", "b"), ("SMEMBERS", "a")]) == [0, [b"b"]]
    assert proxy.connections == 2, "nothing more is read from a connection whose reply was damaged"
    connections.close()
