"""The processes: each starts pyworkers again when it has ended, as systemd would, and has a network of its own."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hasty import hasty
from proxy import Proxy

from chaos.bounded_jobs import LONG_QUEUE, PLAIN_LIST, PLAIN_QUEUE, RANKED_QUEUE
from chaos.notes import PIDS
from chaos.pools import configurations

# A tenth of the real values, all of them, so that they still fit together.
SHORT: dict[str, Any] = {
    "timing.lease_s": 6,
    "brokers.redis.fleet.leases.GONE_FOR_S": 120,
    "brokers.redis.queues.transport.RedisTransport.block_s": 1,
    "brokers.redis.driver.connection.Connections.reply_margin_s": 1,
    "brokers.redis.driver.connection.SOCKET_TIMEOUT_S": 1.5,
    "runtime.fetching.fetcher.Fetcher.reconcile_every_s": 2,
    "timing.beat_every_s": 0.5,
    "timing.lease_fresh_s": 5,
    "runtime.outage.LONGEST_PAUSE_S": 0.5,
    "policy.poison.ALONE_S": 6,
    "policy.poison.AWAY_S": (0.5, 1.5, 4.5, 13.5),
    "timing.recover_every_s": 1,
    "timing.steady_for_s": 6,
    "runtime.settling.settlement.Settlement.refused_for_s": 0.5,
    "system.supervisor.LONGEST_PAUSE_S": 3.0,
}
STOP_TIMEOUT_S = 2  # for running jobs
EXIT_S = 20

FOLDER = Path(__file__).parents[1]
SUPPORT = Path(__file__).parents[2] / "support"
ROOT = Path(__file__).parents[3]
# The queues of `bounded_jobs`, which are in no pool of several.
BOUNDED = f"""
[queue:{LONG_QUEUE}]
concurrency = 6
[queue:{RANKED_QUEUE}]
concurrency = 2
priorities = yes
[queue:{PLAIN_QUEUE}]
concurrency = 2
format = plain
list = {PLAIN_LIST}
codec = json
handler = chaos.bounded:take_body
"""

_numbers, _configuration_numbers = itertools.count(1), itertools.count(1)


@dataclass
class Life:
    """Of one process, on the monotonic clock that all processes of a machine share."""

    number: int
    node: str
    began: float
    asked_to_stop: float = float("inf")
    ended: float = float("inf")
    how: str = "lives"  # "killed", "killed by a job", "stopped", or "died" when nobody had asked it to
    pid: int = 0
    pools: str = ""  # how the queues share its threads, see `pools`
    # When a monkey was about to kill it. It ends soon after, and others may run its jobs before `ended` is noted.
    signalled: float = float("inf")


class Node:
    """Used by its own monkey, one thread, and by `run` before and after that."""

    settings = ""  # of its configuration, before the sections of its queues

    def __init__(self, number: int, machine: str, server_port: int, directory: Path, seed: int) -> None:
        self.name = f"node{number}"
        self.proxy = Proxy(server_port)
        self.lives: list[Life] = []
        self.ends: dict[int, dict[str, Any]] = {}  # of children that did not end together with their parent, by number
        self._machine = machine
        self._server = f"redis://127.0.0.1:{server_port}/0"
        self._directory = directory
        self._configurations = configurations(seed, number)
        self._process: subprocess.Popen[bytes] | None = None
        self._exit_code: int | None = None

    def start(self) -> None:
        pools, text = next(self._configurations)
        configuration = self._directory / f"configuration-{next(_configuration_numbers)}"
        configuration.write_text(f"{self.settings}{text}\n{BOUNDED}")
        command = [
            *hasty(SHORT, self._machine), sys.executable, "-m", "goworkers_py.cli", "run", "--redis", self.proxy.url,
            "--require", "chaos.parents", "--require", "chaos.stated",
            "--require", "chaos.shaped", "--require", "chaos.bounded", "--log-level", "warning",
            "--timeout", str(STOP_TIMEOUT_S), "--config", str(configuration),
        ]  # fmt: skip
        self._launch(command, pools)

    def _launch(self, command: list[str], pools: str) -> None:
        number, began = next(_numbers), time.monotonic()
        environment = {
            **os.environ,
            "CHAOS_RUNS": str(self._directory / f"runs-{number}{{pid:07}}"),
            "CHAOS_SERVER": self._server,
            "PYTHONPATH": os.pathsep.join([str(FOLDER), str(SUPPORT), os.environ.get("PYTHONPATH", ""), str(ROOT)]),
        }
        with (self._directory / f"log-{number}-{self.name}").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self._directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        pid = self._process.pid
        self.lives.append(Life(number * PIDS + pid, self.name, began, pid=pid, pools=pools))

    def revive(self) -> None:
        if not self.lives_now:
            self.start()

    @property
    def lives_now(self) -> bool:
        """A process that ended without having been asked to is noted here."""
        if self._process is None:
            return False
        if self._process.poll() is not None:
            self._ended("died")
            return False
        return True

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self.lives[-1].signalled = min(self.lives[-1].signalled, time.monotonic())
            self._process.kill()
            self._process.wait()
            self._ended("killed")

    def stop(self) -> None:
        """As for a restart: it may not wait for its jobs for long, and there may be no server to say farewell to."""
        if self._process is None:
            return
        self.lives[-1].asked_to_stop = time.monotonic()
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(EXIT_S)
            self._ended("stopped")
        except subprocess.TimeoutExpired:
            self.kill()
            self.lives[-1].how = "did not stop"

    @property
    def exit_code(self) -> int | None:
        """Of the last one that ended."""
        return self._exit_code

    def close(self) -> None:
        self.thaw()
        self.kill()
        self.proxy.close()

    def working(self) -> list[int]:
        """The pids of the processes that run jobs now."""
        return [self.lives[-1].pid]

    def workers(self, numbers: Iterable[int]) -> Iterator[Life]:
        """The lives of the processes that run jobs. `numbers`: those of which some file tells."""
        return iter(self.lives)

    def complaints(self, workers: Mapping[int, Life]) -> Iterator[str]:
        return iter(())

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _ended(self, how: str) -> None:
        self.lives[-1].ended = time.monotonic()
        self.lives[-1].how = how
        self._exit_code = self._process and self._process.returncode
        self._process = None
