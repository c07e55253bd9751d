"""Exchanges with a real server, over a network that fails."""

from __future__ import annotations

import ctypes
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis as redis_py
from proxy import Proxy
from redis_connections import answers, echo
from servers import RedisServer
from waiting import eventually

from goworkers_py.brokers.redis.driver import connection, exchange
from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Script
from goworkers_py.brokers.redis.driver.packing import LARGE
from goworkers_py.core.errors import BrokerRefused, BrokerUnavailable, WrongType


class Interruption(BaseException):
    """The exception that a test throws into a thread."""

    arrived = 0  # counts also exceptions that no code sees, such as one thrown in the `except` of the last one

    def __init__(self) -> None:
        super().__init__()
        Interruption.arrived += 1


def throw_into(thread: threading.Thread) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interruption))


@pytest.fixture
def proxied(proxy: Proxy) -> Iterator[Connections]:
    """Connections through the proxy."""
    with closing(Connections(proxy.url)) as connections:
        connections.call("PING")
        yield connections


# --- whole exchanges


@pytest.mark.parametrize("size", [LARGE, LARGE + 1, 3_000_000])
def test_arguments_of_any_size_reach_the_server(connections: Connections, size: int) -> None:
    large = bytes(range(256)) * (size // 256 + 1)
    items = ["first", large[:size], 7, large[1 : size + 1], b"", 1.5]
    replies = connections.exchange([("RPUSH", "list", *items), ("LRANGE", "list", 0, -1), ("ECHO", "last")])
    assert replies == [6, [b"first", large[:size], b"7", large[1 : size + 1], b"", b"1.5"], b"last"]


def test_commands_of_one_exchange_are_answered_in_order_in_one_round_trip(
    connections: Connections, redis: redis_py.Redis
) -> None:
    replies = connections.exchange(
        [("SET", "key", b"\xff"), ("GET", "key"), ("INCRBY", "n", 7), ("ZADD", "z", 0.1, "m")]
    )
    assert replies == [b"OK", b"\xff", 7, 1]
    assert redis.zscore("z", "m") == 0.1


def test_an_error_reply_is_raised_after_all_replies_were_read(connections: Connections) -> None:
    with pytest.raises(BrokerRefused, match="WRONGTYPE"):
        connections.exchange([("SET", "key", 1), ("LPUSH", "key", 1), ("INCRBY", "key", 1)])
    assert connections.call("GET", "key") == b"2"


def test_a_transaction_is_done_as_one(connections: Connections) -> None:
    assert connections.transaction([("SADD", "queues", "q"), ("LPUSH", "queue:q", "a", "b")]) == [1, 2]


def test_a_transaction_that_cannot_be_queued_is_not_done_and_says_why(connections: Connections) -> None:
    with pytest.raises(BrokerRefused, match="wrong number of arguments"):
        connections.transaction([("SET", "key", 1), ("LPUSH", "list")])
    assert connections.call("EXISTS", "key") == 0


def test_an_error_inside_a_transaction_is_raised(connections: Connections) -> None:
    connections.call("SET", "key", 1)
    with pytest.raises(BrokerRefused, match="WRONGTYPE"):
        connections.transaction([("LPUSH", "key", 1)])


def test_a_free_connection_is_used_again_and_else_a_new_one_is_made(own_redis: RedisServer) -> None:
    with closing(Connections(own_redis.url)) as connections:
        made = own_redis.client().info("stats")["total_connections_received"]
        for _ in range(5):
            connections.call("PING")
        assert own_redis.client().info("stats")["total_connections_received"] == made + 2  # this client is another one


def test_threads_are_given_their_own_replies(connections: Connections) -> None:
    def echo(thread: int) -> bool:
        return all(connections.call("ECHO", f"{thread}:{n}") == f"{thread}:{n}".encode() for n in range(100))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(echo, range(8)))


@pytest.mark.parametrize("after_bytes", [0, 1, 5, 12])
def test_a_reply_that_was_cut_is_not_given_to_the_next_command(
    proxy: Proxy, proxied: Connections, after_bytes: int
) -> None:
    proxy.drop_reply_of(b"ECHO", after_bytes=after_bytes)
    with pytest.raises(BrokerUnavailable):
        proxied.exchange([("ECHO", "a long reply"), ("ECHO", "another")])
    assert proxied.exchange([("ECHO", "mine"), ("ECHO", "mine too")]) == [b"mine", b"mine too"]


def test_a_reply_that_comes_too_late_is_not_given_to_the_next_command(proxy: Proxy, impatient: Connections) -> None:
    given_up = threading.Event()
    proxy.hold(given_up, b"ECHO")
    with pytest.raises(BrokerUnavailable, match=r"[Tt]imeout"):
        impatient.call("ECHO", "late")
    given_up.set()
    assert eventually(lambda: echo(impatient, "mine")) == b"mine"
    assert eventually(lambda: echo(impatient, "mine too")) == b"mine too"


@contextmanager
def interruption_at(line: int) -> Iterator[None]:
    """Raises the exception before the n-th line that our module runs from here on.

    A free connection must be there, so that no lock is taken: a tracer can raise where a `with` is about to be left,
    and Python itself does not.
    """

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal line
        if frame.f_code.co_filename not in (connection.__file__, exchange.__file__):
            return None
        if event == "line":
            line -= 1
            if line == 0:
                raise Interruption
        return trace

    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(tracing)


def test_an_exception_at_whatever_line_of_an_exchange_leaves_no_reply_to_the_next_one(
    connections: Connections,
) -> None:
    connections.call("PING")
    # The second reply comes late: a reply that is there already would be seen before the next exchange.
    for line in range(1, 1_000):
        try:
            with interruption_at(line):
                connections.exchange([("ECHO", "theirs"), ("BLPOP", "nothing", 0.05)])
        except Interruption:
            assert connections.exchange([("ECHO", "mine"), ("ECHO", "mine too")]) == [b"mine", b"mine too"]
        else:
            break
    assert 20 < line < 200


def test_an_exception_thrown_into_an_exchange_leaves_no_reply_to_the_next_one(
    proxy: Proxy, proxied: Connections
) -> None:
    def interrupted() -> None:
        with pytest.raises(Interruption):
            proxied.exchange([("ECHO", number) for number in range(10)])
        after.append(proxied.call("ECHO", "mine"))

    after: list[bytes] = []
    thrown = threading.Event()
    proxy.delay(0.02, b"ECHO", times=3)
    proxy.hold(thrown, b"ECHO")
    proxy.delay(0.02, b"ECHO", times=6)
    thread = threading.Thread(target=interrupted)
    thread.start()
    assert eventually(lambda: proxy.replies[b"ECHO"] >= 3)
    throw_into(thread)
    thrown.set()  # the thread waits in C code, where no exception reaches it, until the next reply comes
    thread.join()
    assert after == [b"mine"]


class Echoes:
    """The work of a thread: sends ECHO with its own words until it must stop, whatever exceptions are thrown."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.enough = threading.Event()
        self.asked = 0
        self.crossed: list[object] = []

    def run(self) -> None:
        while not self.enough.is_set():
            with suppress(Interruption):  # thrown so late that it arrives outside of the `try` below
                self.ask_until_enough()

    def ask_until_enough(self) -> None:
        while not self.enough.is_set():
            with suppress(Interruption):
                self.ask()

    def ask(self) -> None:
        while not self.enough.is_set():
            self.asked += 1
            replies = self.connections.exchange([("ECHO", self.asked), ("ECHO", -self.asked)])
            if replies != [b"%d" % self.asked, b"%d" % -self.asked]:
                self.crossed.append((self.asked, replies))

    def swallowed(self, unraisable: sys.UnraisableHookArgs) -> None:
        """The exception was thrown in a __del__, where no exception goes further."""
        if unraisable.exc_type is not Interruption:
            sys.__unraisablehook__(unraisable)


@pytest.mark.usefixtures("untraced")
def test_exceptions_thrown_at_any_moment_cross_no_replies(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    echoes = Echoes(connections)
    monkeypatch.setattr(sys, "unraisablehook", echoes.swallowed)
    thread = threading.Thread(target=echoes.run)
    thread.start()
    try:
        for _ in range(200):
            time.sleep(random.uniform(0, 0.002))
            arrived = Interruption.arrived
            throw_into(thread)
            if not eventually(lambda arrived=arrived: Interruption.arrived > arrived, within_s=5):
                # It struck the hook for exceptions in a __del__, and was swallowed there.
                throw_into(thread)
                assert eventually(lambda arrived=arrived: Interruption.arrived > arrived)
        asked = echoes.asked
        assert eventually(lambda: echoes.asked > asked + 1)  # no exception is on its way to the thread any more
    finally:
        echoes.enough.set()
        thread.join()
    assert not echoes.crossed
    assert echoes.asked > 200


# --- connections that end


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("end", ["kill", "restart"])
def test_an_idle_connection_that_the_server_has_closed_is_replaced_without_an_error(
    own_redis: RedisServer, end: str, blocking: bool
) -> None:
    def is_closed() -> bool:
        return "pyworkers" not in [client["name"] for client in own_redis.client().client_list()]

    with closing(Connections(own_redis.url)) as connections:
        line = connections.blocking_line(1) if blocking else connections
        line.call("PING")
        if end == "kill":
            own_redis.client().client_kill_filter(_type="normal", skipme=True)
        else:
            own_redis.restart()
        assert eventually(is_closed)
        assert line.call("LPUSH", "list", 1) == 1
        line.close()


def test_an_idle_connection_that_was_cut_on_the_way_is_replaced_without_an_error(
    proxy: Proxy, proxied: Connections
) -> None:
    proxy.cut()
    assert eventually(lambda: proxy.open == 0)
    assert proxied.call("PING") == b"PONG"
    assert proxy.connections == 2


def test_a_server_that_is_gone_is_unavailable_and_is_found_again_when_it_is_back(
    own_redis: RedisServer, proxied: Connections
) -> None:
    own_redis.kill()
    for _ in range(2):
        with pytest.raises(BrokerUnavailable):
            proxied.call("PING")
    own_redis.start()
    assert proxied.call("PING") == b"PONG"


def test_a_server_that_does_not_answer_is_unavailable(own_redis: RedisServer, impatient: Connections) -> None:
    own_redis.pause()
    try:
        with pytest.raises(BrokerUnavailable, match=r"[Tt]imeout"):
            impatient.call("PING")
    finally:
        own_redis.resume()
    assert eventually(lambda: answers(impatient))


@pytest.mark.parametrize("fault", [Proxy.drop_reply_of, Proxy.drop_command, Proxy.swallow])
def test_nothing_is_sent_again_after_a_lost_reply(
    own_redis: RedisServer,
    proxy: Proxy,
    proxied: Connections,
    impatient: Connections,
    push_script: Script,
    fault: Callable[..., None],
) -> None:
    proxied.script(push_script, ["list"], ["first"])  # the server knows the script from here on
    proxy.commands.clear()
    for aim in (b"EXEC", b"EVALSHA", b"BRPOPLPUSH", b"LPUSH"):
        fault(proxy, aim, times=1)
    attempts: list[Callable[[], object]] = [
        lambda: impatient.transaction([("SADD", "queues", "q"), ("RPUSH", "list", "x")]),
        lambda: impatient.script(push_script, ["list"], ["x"]),
        lambda: impatient.call("LPUSH", "list", "x"),
        lambda: line.block("BRPOPLPUSH", "list", "other", 1),
    ]
    with closing(impatient.blocking_line(1)) as line:
        for number, attempt in enumerate(attempts, 1):
            # On a busy machine, a new connection may not be made in so short a time: then nothing was sent.
            while proxy.hits < number:
                with pytest.raises(BrokerUnavailable):
                    attempt()
                eventually(lambda number=number: proxy.hits == number, 2.0)  # type: ignore[misc]
    proxy.pass_through()
    done = fault is Proxy.drop_reply_of
    assert own_redis.client().llen("list") == (3 if done else 1)
    assert own_redis.client().llen("other") == (1 if done else 0)
    sent = {name: proxy.commands[name] for name in (b"EXEC", b"EVALSHA", b"EVAL", b"LPUSH", b"BRPOPLPUSH")}
    assert sent == {b"EXEC": 1, b"EVALSHA": 1, b"EVAL": 0, b"LPUSH": 1, b"BRPOPLPUSH": 1}


def test_close_fails_the_exchanges_that_run_and_no_later_ones(
    own_redis: RedisServer,
) -> None:
    def wait(command: tuple[str | int, ...]) -> None:
        try:
            connections.call(*command)
        except BaseException as error:
            errors.append(error)

    errors: list[BaseException] = []
    connections = Connections(f"{own_redis.url}?socket_timeout=50")
    threads = [threading.Thread(target=wait, args=(("BLPOP", f"nothing:{n}", 40),)) for n in range(4)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: own_redis.client().info("clients")["blocked_clients"] == 4)
    connections.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [BrokerUnavailable] * 4
    assert connections.call("PING") == b"PONG"  # the connections can be used again
    connections.close()
    clients = own_redis.client()
    assert eventually(lambda: [c for c in clients.client_list() if c["name"] == "pyworkers"] == [])


# --- scripts


def test_a_wrong_type_error_names_only_keys_that_the_script_reads(own_redis: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "both.lua").write_text("return redis.call('LLEN', KEYS[1]) + redis.call('EXISTS', KEYS[2])")
    own_redis.client().mset({"list": "text", "lease": "text"})
    with closing(Connections(own_redis.url)) as connections, pytest.raises(WrongType) as caught:
        connections.script(Script(tmp_path / "both.lua", typed=1), ["list", "lease"], [])
    assert "list" in str(caught.value)
    assert "lease" not in str(caught.value)


def test_a_script_that_the_server_does_not_know_is_sent_as_its_source(
    proxy: Proxy, proxied: Connections, push_script: Script
) -> None:
    assert proxied.script(push_script, ["list"], ["a"]) == 1
    assert proxied.script(push_script, ["list"], ["b"]) == 2
    proxied.call("SCRIPT", "FLUSH")
    assert proxied.script(push_script, ["list"], ["c"]) == 3
    assert (proxy.commands[b"EVALSHA"], proxy.commands[b"EVAL"]) == (3, 2)


# --- blocking lines


@pytest.fixture
def line(own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingLine]:
    monkeypatch.setattr(connection, "HASTE_S", 20.0)  # a wake must not fail on a busy machine
    with closing(Connections(own_redis.url)) as connections, closing(connections.blocking_line(30)) as line:
        yield line
