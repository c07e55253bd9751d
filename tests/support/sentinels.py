"""A primary with two replicas, and three sentinels that watch them, on loopback."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers import Killable, RedisServer, free_port
from waiting import eventually

from goworkers_py.brokers.redis.server.embedded_server import find_server

# Sentinels ping once a second. With a limit no longer than that, a sentinel takes a primary for dead that it has only
# just got to know, and elects another.
DOWN_AFTER_MS = 2_000
QUORUM = 2
SERVICE = "jobs"


class Sentinel(Killable):
    """One `redis-server --sentinel`. It keeps its port and its configuration file, which it rewrites itself."""

    def __init__(self, primary_port: int, password: str, own_password: str) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="pyworkers-sentinel-"))
        self.port = free_port()
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self._directory}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary_port} {QUORUM}",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} 5000",
        ]
        if password:
            lines.append(f"sentinel auth-pass {SERVICE} {password}")
        if own_password:
            lines += [f"requirepass {own_password}", f"sentinel sentinel-pass {own_password}"]
        self._configuration.write_text("\n".join(lines))
        self.start()

    @property
    def runs(self) -> bool:
        return self._process is not None

    @property
    def _configuration(self) -> Path:
        return self._directory / "sentinel.conf"

    @property
    def log(self) -> str:
        return (self._directory / "log").read_text("utf-8", "replace")

    def start(self) -> None:
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [find_server(), str(self._configuration), "--sentinel"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


class Sentinels(AbstractContextManager["Sentinels"]):
    """`options` are those of the servers. With a password, servers or sentinels require it from every client."""

    def __init__(self, password: str = "", sentinel_password: str = "", **options: str) -> None:
        self._stack = ExitStack()
        self._password = password
        self._sentinel_password = sentinel_password
        try:
            self.servers = [self._server(repl_diskless_sync_delay="0", **options) for _ in range(3)]
            self.primary = self.servers[0]
            for replica in self.replicas:
                replica.client().replicaof("127.0.0.1", self.primary.port)
            if password:
                for server in self.servers:
                    client = server.client()
                    client.config_set("masterauth", password)
                    client.config_set("requirepass", password)
            self.await_replication()
            self.sentinels = [self._sentinel() for _ in range(3)]
            self.await_all_known()
        except BaseException:
            self.close()
            raise

    @property
    def replicas(self) -> list[RedisServer]:
        return [server for server in self.servers if server is not self.primary]

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)

    @property
    def url(self) -> str:
        login = f":{self._password}@" if self._password else ""
        query = f"?sentinel_password={self._sentinel_password}" if self._sentinel_password else ""
        return f"sentinel://{login}{self.hosts}/{SERVICE}/0{query}"

    def client(self, server: RedisServer | Sentinel) -> redis.Redis:
        """A client without retries: an outage is an error at once."""
        password = self._sentinel_password if isinstance(server, Sentinel) else self._password
        no_retry = Retry(NoBackoff(), 0)
        client = redis.Redis(port=server.port, password=password or None, socket_timeout=20, retry=no_retry)
        self._stack.callback(client.close)
        return client

    def await_replication(self) -> None:
        def up(client: redis.Redis) -> bool:
            try:
                return client.info("replication").get("master_link_status") == "up"
            except redis.ConnectionError:  # a server closes its connections when it becomes a replica
                return False

        clients = [self.client(replica) for replica in self.replicas]
        assert eventually(lambda: all(map(up, clients)), 30)

    def await_all_known(self) -> None:
        """Waits until every sentinel knows the replicas and the other sentinels, which a failover needs."""

        def known(sentinel: Sentinel) -> bool:
            try:
                state = self.client(sentinel).sentinel_masters()[SERVICE]
            except (redis.RedisError, KeyError):
                return False
            return bool(state["num-slaves"] == 2 and state["num-other-sentinels"] == 2)

        for sentinel in self.sentinels:
            assert eventually(lambda sentinel=sentinel: known(sentinel), 30), sentinel.log

    def fail_over(self, end: Callable[[RedisServer], None] = RedisServer.kill) -> RedisServer:
        """Ends the primary. Returns the server that is primary after it."""
        old, asked = self.primary, self.client(next(sentinel for sentinel in self.sentinels if sentinel.runs))
        end(old)

        def successor() -> RedisServer | None:
            port = asked.sentinel_masters()[SERVICE]["port"]
            return next((server for server in self.servers if server.port == port and server is not old), None)

        # For half a minute after a pause of the machine the sentinels trust no clock, and elect nobody (TILT).
        new = eventually(successor, 60)
        assert new is not None, self.sentinels[0].log
        self.primary = new
        return new

    @property
    def elections(self) -> int:
        return max(
            int(self.client(sentinel).sentinel_masters()[SERVICE]["config-epoch"])
            for sentinel in self.sentinels
            if sentinel.runs
        )

    def close(self) -> None:
        self._stack.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _server(self, **options: str) -> RedisServer:
        server = RedisServer(**options)
        self._stack.callback(server.close)
        return server

    def _sentinel(self) -> Sentinel:
        sentinel = Sentinel(self.primary.port, self._password, self._sentinel_password)
        self._stack.callback(sentinel.close)
        return sentinel
