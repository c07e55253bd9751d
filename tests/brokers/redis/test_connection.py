"""Connections to a real server: over a network that fails, and with servers that cannot serve."""

from __future__ import annotations

import ctypes
import random
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis as redis_py
from apps import own_broker
from forks import ended_well, in_child
from proxy import Direction, Proxy
from servers import RedisServer, free_port
from waiting import eventually

from goworkers_py.api.client import Client
from goworkers_py.brokers.redis.driver import blocking_line, connection, exchange
from goworkers_py.brokers.redis.driver.blocking_line import BlockingLine
from goworkers_py.brokers.redis.driver.connection import Connections
from goworkers_py.brokers.redis.driver.exchange import Exchanges, RedisCommand, Script
from goworkers_py.brokers.redis.driver.packing import LARGE, packed
from goworkers_py.brokers.redis.server.embedded_server import find_server
from goworkers_py.core.errors import BrokerError, BrokerFull, BrokerRefused, BrokerUnavailable, WrongType

SHORT_S = 0.5
HASTE_S = connection.HASTE_S


class Interruption(BaseException):
    """The exception that a test throws into a thread."""

    arrived = 0  # counts also exceptions that no code sees, such as one thrown in the `except` of the last one

    def __init__(self) -> None:
        super().__init__()
        Interruption.arrived += 1


def throw_into(thread: threading.Thread) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interruption))


@pytest.fixture
def connections(redis_url: str) -> Iterator[Connections]:
    with closing(Connections(redis_url)) as connections:
        yield connections


@pytest.fixture
def proxy(own_redis: RedisServer) -> Iterator[Proxy]:
    with Proxy(own_redis.port) as proxy:
        yield proxy


@pytest.fixture
def proxied(proxy: Proxy) -> Iterator[Connections]:
    """Connections through the proxy."""
    with closing(Connections(proxy.url)) as connections:
        connections.call("PING")
        yield connections


@pytest.fixture
def impatient(proxy: Proxy) -> Iterator[Connections]:
    """Connections through the proxy that do not wait long for a reply."""
    address = f"{proxy.url}?socket_timeout={SHORT_S}&socket_connect_timeout={SHORT_S}"
    with closing(Connections(address)) as connections:
        connections.reply_margin_s = SHORT_S
        assert eventually(lambda: answers(connections))
        yield connections


def answers(connections: Exchanges) -> bool:
    return echo(connections, "well") == b"well"


def echo(connections: Exchanges, word: str) -> Any:
    """None when no answer came in time, as it may happen to impatient ones on a busy machine."""
    try:
        return connections.call("ECHO", word)
    except BrokerUnavailable:
        return None


@pytest.fixture
def push_script(tmp_path: Path) -> Script:
    path = tmp_path / "push.lua"
    path.write_text("return redis.call('LPUSH', KEYS[1], ARGV[1])")
    return Script(path)


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


# --- servers that cannot serve


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


# --- blocking lines


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


# --- forks


def ids(redis: redis_py.Redis) -> set[str]:
    """The numbers of our connections at the server."""
    return {client["id"] for client in redis.client_list() if client["name"] == "pyworkers"}


def echo_alone(connections: Connections, who: str) -> None:
    for number in range(200):
        word = f"{who}:{number}".encode()
        assert connections.exchange([("ECHO", word), ("ECHO", word * 2)]) == [word, word * 2]


def test_after_a_fork_parent_and_children_have_connections_of_their_own(
    connections: Connections, redis: redis_py.Redis
) -> None:
    with ThreadPoolExecutor(4) as pool:  # leaves several connections in the list
        list(pool.map(lambda n: connections.call("BLPOP", f"nothing:{n}", 0.2), range(4)))
    before = ids(redis)
    children = [in_child(lambda n=n: echo_alone(connections, f"child {n}")) for n in range(2)]
    echo_alone(connections, "parent")
    assert [ended_well(child) for child in children] == [True, True]
    assert eventually(lambda: ids(redis) == before)


def test_a_child_that_closes_and_ends_leaves_the_parents_connections_alone(
    connections: Connections, redis: redis_py.Redis
) -> None:
    connections.call("PING")
    before = ids(redis)
    assert ended_well(in_child(connections.close))
    connections.call("PING")
    assert ids(redis) == before


@pytest.mark.parametrize("use", [Connections.close, lambda connections: connections.call("PING")])
def test_a_child_does_not_wait_for_a_lock_that_another_thread_held_when_it_was_forked(
    connections: Connections, use: Callable[[Connections], object]
) -> None:
    connections.call("PING")
    with connections._lock:
        child = in_child(lambda: use(connections))
    assert ended_well(child)


def test_a_fork_in_the_middle_of_an_exchange_leaves_the_reply_to_the_parent(own_redis: RedisServer) -> None:
    def block() -> None:
        came.append(connections.call("BLPOP", "list", 40))

    redis, came = own_redis.client(), list[Any]()
    connections = Connections(f"{own_redis.url}?socket_timeout=50")  # longer than a child may take
    thread = threading.Thread(target=block)
    thread.start()
    assert eventually(lambda: redis.info("clients")["blocked_clients"] == 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, from Python 3.12 on
        child = in_child(lambda: echo_alone(connections, "child"))
    assert ended_well(child)
    redis.lpush("list", "job")
    thread.join()
    connections.close()
    assert came == [[b"list", b"job"]]


# --- sentinels


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
