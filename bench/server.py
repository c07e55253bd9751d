"""A Redis server of the benchmark's own: on a free port of the loopback interface, without persistence unless asked."""

from __future__ import annotations

import random
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from bench.programs import Failed, Program
from goworkers_py.brokers.redis.server.embedded_server import find_server

START_S = 20.0
QUIET_S = 3.0
REWRITE_S = 30.0
LOOK_S, SETTLED_BYTES, SETTLE_S = 0.5, 4_096, 30.0  # of memory
HURRIED_HZ = "500"  # hash tables that have grown are moved by the timer, for a millisecond each time
OPTIONS = {"bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": "."}
FILE_OPTIONS = {"appendfsync": "everysec", "auto-aof-rewrite-percentage": "0"}


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
        self.port = free_port()
        options = {**OPTIONS, **FILE_OPTIONS, "port": str(self.port)}
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

    @property
    def allocator(self) -> str:
        return str(self.client.info("memory")["mem_allocator"])

    def used_bytes(self) -> int:
        """Of memory, without scripts."""
        self.client.script_flush()
        return int(self.client.info("memory")["used_memory"])

    def settled_bytes(self) -> int:
        """Once no connection of others holds a buffer and no hash table moves any more."""
        usual = self.client.config_get("hz")["hz"]
        self.client.config_set("hz", HURRIED_HZ)
        deadline = time.monotonic() + SETTLE_S
        before, used = -1, self.used_bytes()
        while abs(used - before) > SETTLED_BYTES or self.connections() > 0:
            if time.monotonic() > deadline:
                raise Failed(f"the memory of Redis does not settle: {before} bytes, then {used}")
            time.sleep(LOOK_S)
            before, used = used, self.used_bytes()
        self.client.config_set("hz", usual)
        return used

    @contextmanager
    def append_only_file(self) -> Iterator[None]:
        """Once a child of the server has written what is stored."""
        self.client.config_set("appendonly", "yes")
        try:
            deadline = time.monotonic() + REWRITE_S
            while not self._file_is_begun():
                if time.monotonic() > deadline:
                    raise Failed("Redis does not begin its append-only file")
                time.sleep(0.02)
            yield
        finally:
            self.client.config_set("appendonly", "no")

    def _file_is_begun(self) -> bool:
        state = self.client.info("persistence")
        busy = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "aof_pending_bio_fsync")
        return state["aof_last_bgrewrite_status"] == "ok" and not any(state[name] for name in busy)

    def file_bytes(self) -> int:
        return int(self.client.info("persistence").get("aof_current_size", 0))

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


def free_port() -> int:
    """Below the ports that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as attempt:
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
