"""A Redis server of the benchmark's own: on a free port of the loopback interface, without persistence."""

from __future__ import annotations

import random
import shutil
import socket
import tempfile
import time
from pathlib import Path

import redis

from bench.programs import Failed, Program
from goworkers_py.brokers.redis.embedded_server import find_server

START_S = 20.0
QUIET_S = 3.0


class OwnRedis:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pyworkers-bench-"))
        self.stamps = self.folder / "stamps"
        self._program: Program | None = None
        self._logs = 0

    def __enter__(self) -> OwnRedis:  # noqa: PYI034  # typing.Self is newer than the oldest Python
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self.port = _free_port()
        options = {"bind": "127.0.0.1", "port": str(self.port), "save": "", "appendonly": "no", "dir": "."}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self._program = Program([find_server(), *words], {}, self.log())
        self.client = redis.Redis(port=self.port)
        deadline = time.monotonic() + START_S
        while not self._answers():
            self._program.check()
            if time.monotonic() > deadline:
                raise Failed(f"Redis does not answer: {self._program.tail()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        assert self._program is not None
        try:
            return bool(self.client.info("server")["process_id"] == self._program.pid)
        except redis.RedisError:
            return False

    def close(self) -> None:
        if self._program is not None:
            self.client.close()
            self._program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def version(self) -> str:
        info = self.client.info("server")
        return str(info.get("valkey_version") or info["redis_version"])

    def cpu_s(self) -> float:
        used = self.client.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def log(self) -> Path:
        """A new file for what a program says."""
        self._logs += 1
        return self.folder / f"{self._logs}.log"

    def connections(self) -> int:
        """Those of others."""
        return len(self.client.client_list()) - 1

    def empty(self) -> None:
        """Once those who were killed are gone."""
        deadline = time.monotonic() + QUIET_S
        while self.connections() > 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        self.client.flushall()
        self.stamps.unlink(missing_ok=True)
        self.stamps.touch()


def _free_port() -> int:
    """Below the ports that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as attempt:
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
