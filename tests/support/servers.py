"""Servers that tests start for themselves."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from waiting import await_stopped

from goworkers_py.brokers.redis.server.embedded_server import find_server

START_S = 20.0
STOP_S = 10.0

allowed = True  # conftest.py sets it for each test, by its mark; chaos and pictures run outside pytest


class Killable:
    """A server process that tests can kill and pause."""

    _process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """The server keeps its connections and accepts new ones, and answers nothing until resume()."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            await_stopped(self._process.pid)

    def resume(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


class RedisServer(Killable):
    """A redis-server on 127.0.0.1, in its own directory, that tests can stop, kill and pause.

    It keeps its port for life. Its append-only file is on unless told otherwise, so what it acknowledged outlives
    kill(). Options are the server's own: RedisServer(appendonly="no", maxmemory="5mb", notify_keyspace_events="KEA").
    """

    program = ""  # empty: the one that an embedded server would be
    variables: Mapping[str, str] = {}  # of the environment of the server, beside ours

    def __init__(self, **options: str) -> None:
        check_allowed()
        self._binary = self.program or find_server()
        # With "everysec" the server delays writes to the file while it waits for a busy disk: a kill would lose up to
        # two seconds of acknowledged commands. Without fsync the kernel has them at once.
        self._options = {"appendonly": "yes", "appendfsync": "no", "save": "", **options}
        self._directory = Path(tempfile.mkdtemp(prefix="pyworkers-redis-"))
        self._clients: list[redis.Redis] = []
        self.port = 0
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def log(self) -> str:
        log = self._directory / "redis.log"
        return log.read_text("utf-8", "replace") if log.exists() else ""

    @property
    def append_only_file(self) -> Path:
        """The file that the server appends to: the only one before Redis 7, the last of several since."""
        [*_, last] = sorted(path for path in self._directory.rglob("*.aof") if ".base." not in path.name)
        return last

    def client(self) -> redis.Redis:
        """A client without retries: an outage is an error at once. Closed together with the server."""
        client = redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0))
        self._clients.append(client)
        return client

    def start(self) -> None:
        """Returns when the server answers. Does nothing if the server runs."""
        deadline = time.monotonic() + START_S
        while self._process is None:
            port = self.port or free_port()
            self._process = self._launch(port)
            if self._answers(port, deadline):
                self.port = port
                return
            self.kill()
            # Another program may have the port. After a restart it may become free again.
            if "already in use" not in self.log or time.monotonic() > deadline:
                raise RuntimeError(f"{self._binary} did not start: {self.log}")

    def stop(self) -> None:
        """Stops the server with TERM, as a service manager does."""
        if self._process is not None:
            self.resume()
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
                self._process = None
            except subprocess.TimeoutExpired:
                self.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _launch(self, port: int) -> subprocess.Popen[bytes]:
        options = {"bind": "127.0.0.1", "port": str(port), "dir": ".", **self._options}
        command = [self._binary]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", value]
        with (self._directory / "redis.log").open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                env={**os.environ, **self.variables},
            )

    def _answers(self, port: int, deadline: float) -> bool:
        """False if the process ended or does not answer in time. Another server on its port does not count."""
        assert self._process is not None
        with redis.Redis(port=port, socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
            while self._process.poll() is None and time.monotonic() < deadline:
                try:
                    client.ping()
                    if client.info("server")["process_id"] == self._process.pid:
                        return True
                except redis.RedisError:
                    pass  # does not listen yet, or still loads its data
                time.sleep(0.01)
        return False


def flush(address: str) -> None:
    """Empties the database at this address. Most tests do so twice, and a client of redis-py takes longer to make."""
    parts = urlsplit(address)
    if parts.scheme != "redis" or parts.username or parts.password or parts.query or not parts.hostname:
        with redis.Redis.from_url(address) as client:
            client.flushdb()
        return
    with socket.create_connection((parts.hostname, parts.port or 6379), timeout=START_S) as connection:
        connection.sendall(b"SELECT %d\r\nFLUSHDB\r\n" % int(parts.path.strip("/") or "0"))
        with connection.makefile("rb") as replies:
            assert [replies.readline(), replies.readline()] == [b"+OK\r\n"] * 2


def free_port(of: range = range(15_000, 32_000)) -> int:
    """A port below those that the kernel gives to outgoing connections. With one of those, a client that retries to
    reach a stopped server could at some point connect to itself, and the server could not start again."""
    while True:
        port = random.choice(of)
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def check_allowed() -> None:
    """Fails a test that starts a server without the mark `server`: `make test-fast` would run it without a server."""
    assert allowed, (
        "a test that starts a server or pyworkers asks for a fixture with a server, or is marked with `server`"
    )


def do_without(reason: str) -> NoReturn:
    """Skips the test. With CI set it fails, because CI installs all programs that tests need."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
