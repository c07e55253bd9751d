"""Daemons with `standby` on one server, and a judge who reads every write that the server does for a leader."""

from __future__ import annotations

import json
import re
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis as redis_py
from daemon import Daemon
from proxy import Proxy
from servers import RedisServer
from waiting import eventually

JOBS = """
    import os, time
    import redis
    import goworkers_py as workers

    ledger = redis.Redis.from_url(os.environ["LEDGER"])

    @workers.job("Work", queue="q", timeout=30)
    def work(name, seconds=0.0, pushes=0):
        ledger.rpush("ledger", f"{name} {workers.current_message().epoch}")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.01)
        for number in range(pushes):
            workers.enqueue("q", "Work", [f"{name}-{number}"])
"""

READS = {
    "HGET", "HEXISTS", "HGETALL", "HMGET", "HLEN", "EXISTS", "GET", "TIME", "LLEN", "LRANGE", "LINDEX", "LPOS", "SCARD",
    "SMEMBERS", "ZCARD", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE", "TTL", "PTTL", "PUBLISH",
}  # fmt: skip

WRITES = {"LPUSH", "RPUSH", "LREM", "LTRIM", "ZADD", "ZREM", "RPOPLPUSH", "BRPOPLPUSH", "INCRBY", "HINCRBY", "SADD"}
# The job writes the first, the test the second.
OF_THE_TEST = {("RPUSH", "ledger"), ("LPUSH", "queue:q"), ("LPUSH", "queue:invoices"), ("SADD", "processes")}


@dataclass
class Win:
    epoch: int
    token: str
    at: float  # the server's time


class Judge(threading.Thread):
    """Reads MONITOR. `faults` are the writes of a leader after another one had won, or outside of every fence."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__(name="judge", daemon=True)
        # The driver's default of a few seconds would end the judge while daemons take that long to start.
        self._client = redis_py.Redis(port=server.port, socket_timeout=None)
        self._ready = threading.Event()
        self.wins: list[Win] = []
        self.faults: list[str] = []
        self.writes: dict[int, int] = {}  # by epoch
        self.farewells: list[float] = []
        self._tokens: dict[str, int] = {}
        self._inner: list[str] = []  # commands of scripts, since the last command that is none
        self._script = ""
        self.start()
        assert self._ready.wait(10)

    def run(self) -> None:
        with self._client.monitor() as monitor:
            self._ready.set()
            for told in monitor.listen():
                command = str(told["command"])
                if command.upper().startswith("ECHO THE END"):
                    return
                self._hear(command, told["client_type"] == "lua", float(told["time"]))

    def _hear(self, command: str, inside: bool, at: float) -> None:
        word = command.split(" ", 1)[0].upper()
        if inside:
            won = re.match(r"HSET \S*pyworkers:leader:\S+ v 1 token (\S+) epoch (\d+) ", command)
            if won:
                self.wins.append(Win(int(won[2]), won[1], at))
                self._tokens[won[1]] = int(won[2])
            if '"what": "farewell"' in command.replace("\\", ""):
                self.farewells.append(at)
            if word not in READS and self._script:
                self._judge(command)
            return
        # The server tells a script before the commands of the script.
        self._script = command.rsplit(" ", 1)[-1] if word in ("EVALSHA", "EVAL") else ""
        if word in WRITES and (word, command.split(" ", 2)[1]) not in OF_THE_TEST:
            self.faults.append(f"outside of the fence: {command[:200]}")

    def _judge(self, command: str) -> None:
        epoch = self._tokens.get(self._script)
        if epoch is None:
            return  # a win, a renewal, a resignation or a request: they compare the token themselves
        self.writes[epoch] = self.writes.get(epoch, 0) + 1
        if epoch != self.wins[-1].epoch:
            self.faults.append(f"epoch {epoch} wrote in epoch {self.wins[-1].epoch}: {command[:200]}")

    def close(self) -> None:
        with redis_py.Redis(port=self._client.connection_pool.connection_kwargs["port"]) as client:
            client.echo("THE END")
        self.join(10)
        self._client.close()


class Scene:
    def __init__(self, folder: Path, server: RedisServer, lease_s: float) -> None:
        self._folder = folder
        self.server = server
        self.lease_s = lease_s
        self.redis = server.client()
        self.judge = Judge(server)
        self.daemons: list[Daemon] = []
        self._started = 0

    def start(self, *flags: str, url: str = "") -> Daemon:
        options = ["-q", "q=2", "--standby", "yes", "--leader-lease", str(self.lease_s), "--timeout", "5", *flags]
        return self.plain(*options, url=url).ready()

    def plain(self, *flags: str, url: str = "") -> Daemon:
        """Without `standby`, if it is not among the flags."""
        self._started += 1
        folder = self._folder / str(self._started)
        folder.mkdir()
        changes = {"LEDGER": self.server.url}
        daemon = Daemon(folder, url or self.server.url, JOBS, *flags, changes=changes)
        self.daemons.append(daemon)
        return daemon

    def leading(self) -> Daemon:
        """Starts a daemon, and waits until it leads."""
        daemon = self.start()
        daemon.says("leads now")
        return daemon

    def push(self, name: str, *more: object, queue: str = "q") -> None:
        job = {"class": "Work", "args": [name, *more], "jid": secrets.token_hex(12), "queue": queue, "retry": True}
        self.redis.lpush(f"queue:{queue}", json.dumps({**job, "created_at": time.time(), "enqueued_at": time.time()}))

    def ran(self, name: str) -> list[int]:
        """The epochs in which the job began."""
        told = [line.decode().rsplit(" ", 1) for line in self.redis.lrange("ledger", 0, -1)]
        return [int(epoch) for job, epoch in told if job == name and epoch != "None"]

    def await_run(self, name: str, epoch: int, within_s: float = 20) -> None:
        assert eventually(lambda: epoch in self.ran(name), within_s), (self.ran(name), self.log)

    def await_epoch(self, epoch: int, within_s: float = 20) -> Win:
        assert eventually(lambda: self.judge.wins and self.judge.wins[-1].epoch >= epoch, within_s), self.log
        return self.judge.wins[-1]

    @property
    def epoch(self) -> int:
        return int(self.redis.hget("pyworkers:election:main", "epoch") or 0)

    @property
    def leader(self) -> Daemon:
        pid = int((self.redis.hget("pyworkers:election:main", "identity") or b"::").split(b":")[-2])
        return next(one for one in self.daemons if one.process.pid == pid)

    @property
    def log(self) -> str:
        return "\n".join(f"--- {one.process.pid}\n{one.output}" for one in self.daemons)

    def close(self) -> None:
        for daemon in self.daemons:
            if daemon.process.poll() is None:
                daemon.process.send_signal(signal.SIGCONT)
                daemon.kill()
        self.judge.close()


@contextmanager
def scene(folder: Path, server: RedisServer, lease_s: float = 1.0) -> Iterator[Scene]:
    made = Scene(folder, server, lease_s)
    try:
        yield made
        assert made.judge.faults == []
    finally:
        made.close()


def through(server: RedisServer) -> Proxy:
    return Proxy(server.port)
