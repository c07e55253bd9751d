"""RabbitMQ nodes that tests start for themselves, with a directory, an epmd and ports of their own."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote

from servers import check_allowed, do_without, free_port
from waiting import eventually

if TYPE_CHECKING:
    import pytest

START_S = 120.0
# A node takes its ports seconds after they were chosen. Meanwhile parallel workers of pytest start many other servers,
# none of them on one of these.
PORTS = range(10_000, 15_000)


def find_rabbitmq() -> str:
    """The program of the server itself: the one on PATH changes to another user first."""
    found = sorted(map(str, Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server")))
    if not found or shutil.which("epmd") is None:
        do_without("no RabbitMQ server: install rabbitmq-server")
    return found[-1]


def errors(output: str) -> list[str]:
    """The error lines of a daemon, but those of an outage that RabbitMQ causes by itself: it may let nobody consume
    from a queue that was just declared, nor publish to it, because the queue has no leader yet."""
    return [line for line in output.splitlines() if "ERROR" in line and "leader" not in line]


class RabbitNode:
    """A node on 127.0.0.1, seen from outside."""

    def __init__(self, port: int, http_port: int) -> None:
        self.port, self.http_port = port, http_port

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: str = "") -> bytes:
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}/api/{path}", body.encode(), method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        request.add_header("Content-Type", "application/json")
        # On a busy machine it may answer late, and whoever asks takes an error for the end of the node.
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                told: bytes = reply.read()
                return told
        except urllib.error.HTTPError as refused:
            refused.close()  # Python warns of an open one since 3.14
            raise

    def new_vhost(self, name: str) -> str:
        """The address of a virtual host without queues."""
        self.ask("PUT", f"vhosts/{quote(name, safe='')}")
        return f"{self.url}{quote(name, safe='')}"

    def delete_vhost(self, name: str) -> None:
        self.ask("DELETE", f"vhosts/{quote(name, safe='')}")

    def has_queues(self, vhost: str) -> bool:
        return self.ask("GET", f"queues/{quote(vhost, safe='')}?columns=name") != b"[]"

    def queue_sizes(self, vhost: str) -> dict[str, int]:
        """How many messages each queue holds, also those that are delivered and not acknowledged. Some seconds old."""
        told = json.loads(self.ask("GET", f"queues/{quote(vhost, safe='')}"))
        return {queue["name"]: queue.get("messages", 0) for queue in told}


class RabbitServer(RabbitNode):
    """A node that tests can kill, pause and start again. It keeps its ports and its data for life."""

    def __init__(self, *lines: str) -> None:
        """`lines` are of rabbitmq.conf."""
        check_allowed()
        self._binary = find_rabbitmq()
        self._directory = Path(tempfile.mkdtemp(prefix="pyworkers-rabbit-"))
        super().__init__(free_port(PORTS), free_port(PORTS))
        self._distribution, self._epmd_port = free_port(PORTS), free_port(PORTS)
        self._write_config(lines)
        self._epmd = subprocess.Popen(
            ["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def _write_config(self, lines: tuple[str, ...]) -> None:
        own = (
            "management.tcp.ip = 127.0.0.1", f"management.tcp.port = {self.http_port}",
            "disk_free_limit.absolute = 1MB", "max_message_size = 8388608",
        )  # fmt: skip
        (self._directory / "rabbit.conf").write_text("\n".join([*own, *lines, ""]))
        (self._directory / "plugins").write_text("[rabbitmq_management].")

    @property
    def _environment(self) -> dict[str, str]:
        directory = str(self._directory)
        return {
            "PATH": os.environ["PATH"], "HOME": directory, "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost", "RABBITMQ_MNESIA_BASE": f"{directory}/data",
            "RABBITMQ_LOG_BASE": f"{directory}/log", "RABBITMQ_LOGS": "-", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port), "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_CONFIG_FILE": f"{directory}/rabbit", "RABBITMQ_ENABLED_PLUGINS_FILE": f"{directory}/plugins",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null", "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port), "ERL_CRASH_DUMP_SECONDS": "0",
            # One scheduler, which does not spin: the tests have few processors.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none "
            # How often RabbitMQ 3 looks for runs that are longer than its consumer timeout: by default once a minute.
            "-rabbit channel_tick_interval 500",
        }  # fmt: skip

    def control(self, *arguments: str) -> None:
        """As `rabbitmqctl`, which takes a second or two."""
        program = Path(self._binary).with_name("rabbitmqctl")
        command = [program, "-n", f"test{self.port}@localhost", "-q", *arguments]
        subprocess.run(command, env=self._environment, check=True, capture_output=True, timeout=60)

    def suspend(self, queue: str) -> None:
        """The quorum queue of the virtual host `/` answers nothing until `release`."""
        self.control("eval", f"sys:suspend(whereis('%2F_{queue}')).")

    def release(self, queue: str) -> None:
        self.control("eval", f"sys:resume(whereis('%2F_{queue}')).")

    @property
    def log(self) -> str:
        return (self._directory / "out").read_text("utf-8", "replace")

    def start(self) -> None:
        """Returns when the node serves. Does nothing if it runs."""
        if self._process is not None:
            return
        with (self._directory / "out").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary], env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"RabbitMQ did not start: {self.log[-3000:]}")
            time.sleep(0.1)

    def _serves(self) -> bool:
        try:
            return self.ask("GET", "health/checks/port-listener/" + str(self.port)) is not None
        except OSError:
            return False

    def kill(self) -> None:
        """As a power failure of the machine: nothing is written any more."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def await_metadata(self) -> None:
        """Waits until the node has written which queues it leads, which it does some seconds late: a queue that is
        younger has no leader after a kill (seen with 3.10)."""
        [meta] = self._directory.glob("data/*/quorum/*/meta.dets")
        seen = {meta.stat().st_mtime}
        eventually(lambda: seen.add(meta.stat().st_mtime) or len(seen) > 2, within_s=7.0)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def close(self) -> None:
        self.kill()
        self._epmd.kill()
        self._epmd.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def leave(self) -> dict[str, Any]:
        """It outlives this process. Returns what another one needs to use it and to end it."""
        assert self._process is not None
        pids = [self._process.pid, self._epmd.pid]
        self._process.returncode = self._epmd.returncode = 0  # nobody is warned of them
        return {"ports": [self.port, self.http_port], "pids": pids, "directory": str(self._directory)}


@contextmanager
def shared_node(directory: Path) -> Iterator[RabbitNode]:
    """The node that all processes with this directory share. The first of them starts it, and the last one ends it."""
    with (directory / "rabbitmq").open("a+") as record, (directory / "rabbitmq.users").open("a") as users:
        with _locked(record):
            record.seek(0)
            if not (text := record.read()):
                text = json.dumps(RabbitServer().leave())
                record.write(text)
                record.flush()
            fcntl.flock(users, fcntl.LOCK_SH)
        told = json.loads(text)
        try:
            yield RabbitNode(*told["ports"])
        finally:
            with _locked(record), suppress(BlockingIOError):  # another process goes on
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                record.truncate(0)
                node, epmd = told["pids"]
                log = _log_of_ended(RabbitNode(*told["ports"]), told["directory"])
                for kill, number in ((os.killpg, node), (os.kill, epmd)):
                    with suppress(ProcessLookupError):
                        kill(number, signal.SIGKILL)
                shutil.rmtree(told["directory"], ignore_errors=True)
                if log:
                    raise RuntimeError(f"the node of RabbitMQ has ended by itself: {log}")


def _log_of_ended(node: RabbitNode, directory: str) -> str:
    try:
        node.ask("GET", "vhosts?columns=name")
    except OSError:
        return Path(directory, "out").read_text("utf-8", "replace")[-5_000:]
    return ""


@contextmanager
def _locked(file: TextIO) -> Iterator[None]:
    fcntl.flock(file, fcntl.LOCK_EX)
    yield
    fcntl.flock(file, fcntl.LOCK_UN)


def let_the_node_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine lets a node stand still for seconds, also while it declares the queue of a retry or a dead job."""
    longer = {"consuming_connection.CONSUME_S": 8.0, "publisher.REFUSED_FOR_S": 10.0, "settlement.PATIENCE_S": 10.0}
    for name, seconds in longer.items():
        monkeypatch.setattr(f"goworkers_py.brokers.rabbitmq.{name}", seconds)
