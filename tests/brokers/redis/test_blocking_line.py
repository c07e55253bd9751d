"""A connection that waits for a job: its limit, wakes from other threads, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
from proxy import Direction, Proxy
from redis_connections import SHORT_S, answers, echo
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.redis.driver import blocking_line, connection
from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import RedisCommand
from goworkers_py.brokers.redis.driver.packing import packed
from goworkers_py.core.errors import BrokerError, BrokerUnavailable

HASTE_S = connection.HASTE_S


@contextmanager
def waiting_on(line: BlockingLine, server: RedisServer, *command: str | int) -> Iterator[list[Any]]:
    """A thread that waits in `command`; afterwards its result is in the list."""

    def wait() -> None:
        try:
            came.append(line.block(*command))
        except BrokerError as error:
            came.append(error)

    came: list[Any] = []
    thread = threading.Thread(target=wait)
    thread.start()
    assert eventually(lambda: server.client().info("clients")["blocked_clients"] == 1)
    yield came
    thread.join()


@pytest.fixture
def line(own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingLine]:
    monkeypatch.setattr(connection, "HASTE_S", 20.0)  # a wake must not fail on a busy machine
    with closing(Connections(own_redis.url)) as connections, closing(connections.blocking_line(30)) as line:
        yield line


def test_a_blocking_command_returns_the_reply_when_it_comes(line: BlockingLine, own_redis: RedisServer) -> None:
    with waiting_on(line, own_redis, "BRPOPLPUSH", "list", "other", 30) as came:
        own_redis.client().lpush("list", "job")
    assert came == [b"job"]


def test_a_blocking_command_ends_at_its_own_time_limit(line: BlockingLine) -> None:
    assert line.block("BRPOPLPUSH", "list", "other", 0.01) is None
    assert line.call("ECHO", "mine") == b"mine"


def test_a_wake_ends_a_blocking_command_at_once_and_its_connection_stays(
    line: BlockingLine, own_redis: RedisServer
) -> None:
    line_id = line.call("CLIENT", "ID")
    for _ in range(2):
        with waiting_on(line, own_redis, "BRPOPLPUSH", "list", "other", 30) as came:
            begin = time.monotonic()
            line.wake()
        assert came == [None]
        assert time.monotonic() - begin < 15
    own_redis.client().lpush("list", "job")
    assert line.block("BRPOPLPUSH", "list", "other", 30) == b"job"
    clients = [client for client in own_redis.client().client_list() if client["name"] == "pyworkers"]
    assert [client["id"] for client in clients] == [str(line_id)]  # the connections of `wake` are closed


def test_the_end_of_a_line_returns_whether_a_command_may_still_arrive(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Connections(own_redis.url)) as connections:
        fine, cut_short = connections.blocking_line(30), connections.blocking_line(30)
        for line in (fine, cut_short):
            line.call("PING")
        monkeypatch.setattr(blocking_line, "converse", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cut_short.call("PING")
        monkeypatch.undo()
        assert cut_short.call("PING") == b"PONG"  # a new connection; the first command is on its way
        assert fine.end()
        assert not cut_short.end()
        cut_short.late_s = 0.0
        assert cut_short.end()


def test_a_wake_does_not_wait_for_a_server_that_hangs(
    line: BlockingLine, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def soon() -> bool:
        begin = time.monotonic()
        with pytest.raises(BrokerUnavailable):
            line.wake()
        return time.monotonic() - begin < connection.SOCKET_TIMEOUT_S

    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(line.block, "BRPOPLPUSH", "list", "other", 30)
        assert eventually(lambda: own_redis.client().info("clients")["blocked_clients"] == 1)
        assert eventually(lambda: line._client_id is not None)
        own_redis.pause()
        monkeypatch.setattr(connection, "HASTE_S", HASTE_S)
        try:
            assert any(soon() for _ in range(3)), "the machine may stand still during one of them"
        finally:
            own_redis.resume()
            monkeypatch.setattr(connection, "HASTE_S", 20.0)
            line.wake()
        assert taking.result(15) is None


def test_a_wake_when_no_command_blocks_ends_the_next_one(line: BlockingLine, own_redis: RedisServer) -> None:
    line.wake()
    assert line.block("PING") is None
    assert line.call("PING") == b"PONG"
    assert "cmdstat_client|unblock" not in own_redis.client().info("commandstats")


def test_a_wake_just_before_the_line_knows_its_number_is_not_missed(
    line: BlockingLine, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wake_too_early(commands: Sequence[RedisCommand]) -> list[bytes]:
        monkeypatch.setattr(blocking_line, "packed", packed)
        line.wake()
        return packed(commands)

    monkeypatch.setattr(blocking_line, "packed", wake_too_early)
    began = time.monotonic()
    assert line.block("BRPOPLPUSH", "list", "other", 30) is None
    assert time.monotonic() - began < 15


def test_a_wake_that_the_server_refuses_does_not_fail_the_fetch(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wake_too_early(commands: Sequence[RedisCommand]) -> list[bytes]:
        monkeypatch.setattr(blocking_line, "packed", packed)
        line.wake()
        own_redis.client().lpush("list", "job")
        return packed(commands)

    own_redis.client().execute_command("ACL", "SETUSER", "default", "-client|unblock")
    with closing(Connections(own_redis.url)) as connections, closing(connections.blocking_line(30)) as line:
        monkeypatch.setattr(blocking_line, "packed", wake_too_early)
        assert line.block("BRPOPLPUSH", "list", "other", 30) == b"job"


def test_wakes_from_many_threads_lose_nothing(line: BlockingLine, own_redis: RedisServer) -> None:
    def wake() -> None:
        while not enough.wait(0.001):
            line.wake()

    enough = threading.Event()
    wakers = [threading.Thread(target=wake) for _ in range(3)]
    for thread in wakers:
        thread.start()
    client, taken = own_redis.client(), []
    try:
        for number in range(100):
            client.lpush("list", number)
            while (raw := line.block("BRPOPLPUSH", "list", "other", 1)) is None:
                pass
            taken.append(int(raw))
    finally:
        enough.set()
        for thread in wakers:
            thread.join()
    assert taken == list(range(100))


def test_a_failover_ends_a_blocking_command_as_an_outage(line: BlockingLine, own_redis: RedisServer) -> None:
    with waiting_on(line, own_redis, "BRPOPLPUSH", "list", "other", 30) as came:
        own_redis.client().replicaof("127.0.0.1", own_redis.port)
    assert [type(error) for error in came] == [BrokerUnavailable]
    own_redis.client().replicaof("NO", "ONE")
    assert line.call("PING") == b"PONG"


def test_a_line_that_is_closed_while_it_waits_is_an_outage(line: BlockingLine, own_redis: RedisServer) -> None:
    with waiting_on(line, own_redis, "BRPOPLPUSH", "list", "other", 30) as came:
        line.close()
    assert [type(error) for error in came] == [BrokerUnavailable]
    assert eventually(lambda: own_redis.client().info("clients")["blocked_clients"] == 0)


def test_a_blocking_command_whose_reply_never_comes_ends_some_time_after_its_limit(
    proxy: Proxy, impatient: Connections
) -> None:
    with closing(impatient.blocking_line(0.2)) as line:
        assert eventually(lambda: answers(line))
        proxy.swallow(b"BRPOPLPUSH", Direction.REPLY, times=1)
        begin = time.monotonic()
        with pytest.raises(BrokerUnavailable, match=r"[Tt]imeout"):
            line.block("BRPOPLPUSH", "list", "other", 0.2)
        assert time.monotonic() - begin >= 0.2 + SHORT_S
        assert eventually(lambda: echo(line, "mine")) == b"mine"
