"""The Redis of a run. What it has acknowledged is on disk, so it loses nothing when it is killed."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.programs import Failed, Program
from bench.server import free_port
from goworkers_py.brokers.redis.server.embedded_server import find_server

START_S = 30.0
OPTIONS = {
    "bind": "127.0.0.1", "save": "", "appendonly": "yes", "appendfsync": "always", "dir": ".",
    "maxmemory-policy": "noeviction",
}  # fmt: skip


class Server:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self.port = free_port()
        self._starts = 0
        self.client = redis.Redis(port=self.port, socket_timeout=5, retry=Retry(NoBackoff(), 0))
        self._program: Program | None = None

    def start(self) -> None:
        self._starts += 1
        words = [word for name, value in {**OPTIONS, "port": str(self.port)}.items() for word in (f"--{name}", value)]
        self._program = Program([find_server(), *words], {}, self._folder / f"redis{self._starts}.log")

    def await_start(self) -> None:
        assert self._program is not None
        deadline = time.monotonic() + START_S
        while not self._answers():
            self._program.check()
            if time.monotonic() > deadline:
                raise Failed(f"Redis does not answer: {self._program.tail()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        with contextlib.suppress(redis.RedisError):
            return bool(self.client.ping())
        return False

    def stop(self, kill: bool) -> None:
        assert self._program is not None
        self._program.kill() if kill else self._program.stop()

    def fill(self) -> None:
        """One byte is more than enough for it to refuse each command that may need memory."""
        self.client.config_set("maxmemory", 1)

    def empty(self) -> None:
        self.client.config_set("maxmemory", 0)

    @property
    def version(self) -> str:
        info = self.client.info("server")
        return str(info.get("valkey_version") or info["redis_version"])

    def close(self) -> None:
        self.client.close()
        if self._program is not None:
            self._program.kill()

    def places_of(self, job_id: str) -> list[str]:
        """The keys that hold this id in their name or in their value."""
        needle = job_id.encode()
        return sorted(
            key.decode("utf-8", "replace") for key in self.client.scan_iter(count=1_000)
            if needle in key or any(needle in part for part in self._parts(key))
        )  # fmt: skip

    def _parts(self, key: bytes) -> list[bytes]:
        kind = self.client.type(key)
        if kind == b"string":
            return [self.client.get(key) or b""]
        if kind == b"list":
            return list(self.client.lrange(key, 0, -1))
        if kind == b"zset":
            return list(self.client.zrange(key, 0, -1))
        if kind == b"set":
            return list(self.client.smembers(key))
        if kind == b"hash":
            return [part for pair in self.client.hgetall(key).items() for part in pair]
        return []
