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
from pathlib import Path
from typing import NoReturn

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from goworkers_py.brokers.redis.embedded import find_server

START_S = 20.0
STOP_S = 10.0

allowed = True  # set before each test, by its mark; chaos and pictures run outside of pytest


class Killable:
    """The process of a server, to be killed and paused at will."""

    _process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It keeps its connections and takes new ones, and answers nothing until resume()."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


class RedisServer(Killable):
    """A redis-server on 127.0.0.1, in a directory of its own, to be stopped, killed and paused at will.

    It keeps its port for life. Its append-only file is on unless told otherwise, so what it acknowledged outlives
    kill(). Options are the server's own: RedisServer(appendonly="no", maxmemory="5mb", notify_keyspace_events="KEA").
    """

    def __init__(self, **options: str) -> None:
        check_allowed()
        self._binary = find_server()
        # With "everysec" the server holds back its writes to the file while it waits for a busy disk: up to two seconds
        # of acknowledged commands would die with a killed server. Without fsync they are with the kernel at once.
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

    def client(self) -> redis.Redis:
        """Closed together with the server. An outage is an error at once: it tries nothing twice."""
        client = redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0))
        self._clients.append(client)
        return client

    def start(self) -> None:
        """Returns when it answers. Does nothing if it runs."""
        deadline = time.monotonic() + START_S
        while self._process is None:
            port = self.port or _free_port()
            self._process = self._launch(port)
            if self._answers(port, deadline):
                self.port = port
                return
            self.kill()
            # Somebody may have taken the port since; at a restart it may come free again.
            if "already in use" not in self.log or time.monotonic() > deadline:
                raise RuntimeError(f"{self._binary} did not start: {self.log}")

    def stop(self) -> None:
        """In order, as a service manager does it."""
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
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self._directory
            )

    def _answers(self, port: int, deadline: float) -> bool:
        """False if it ended, or does not answer in time; another server on its port is no answer."""
        assert self._process is not None
        with redis.Redis(port=port, socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
            while self._process.poll() is None and time.monotonic() < deadline:
                try:
                    client.ping()
                    if client.info("server")["process_id"] == self._process.pid:
                        return True
                except redis.RedisError:
                    pass  # not there yet, or still loading its data
                time.sleep(0.01)
        return False


def _free_port() -> int:
    """Below the ports that the kernel gives to outgoing connections: on one of those, a client that tries again and
    again to reach a stopped server would one day be connected to itself, and the server could not come back."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def check_allowed() -> None:
    """A test that lacks its mark would be among those of `make test-fast`, and fail where there is no server."""
    assert allowed, (
        "a test that starts a server or pyworkers asks for a fixture with a server, or is marked with `server`"
    )


def do_without(reason: str) -> NoReturn:
    """What is missing on a laptop is missing; CI installs what it needs."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
