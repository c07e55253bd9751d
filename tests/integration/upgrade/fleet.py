"""Processes and producers of several releases on one server, and the account of their jobs."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from chaos.judge import Judge
from chaos.ledger import Account, account
from chaos.nodes import Life
from chaos.notes import read_pushes, read_runs
from chaos.run import what_is_left
from servers import RedisServer
from waiting import eventually

from upgrade.releases import FOLDER, Release

STOP_TIMEOUT_S = 2  # for running jobs
EXIT_S = 30
PROGRESS_S = 60.0
DRAIN_S = 120.0

_numbers = itertools.count(1)


class Process:
    """`pyworkers run` of a release. It starts at once."""

    def __init__(self, release: Release, server: RedisServer, directory: Path) -> None:
        number = next(_numbers)
        self.release = release
        self.life = Life(number, release.version, time.monotonic())
        self._runs = directory / f"runs-{number}"
        self.log = directory / f"log-{number}-{release.version}"
        command = [
            sys.executable, "-m", "goworkers_py.cli", "run", "--redis", server.url, "--require", "chaos.work",
            "--queue", "short=5", "--timeout", str(STOP_TIMEOUT_S), "--poll-interval", "0.5", "--log-level", "warning",
        ]  # fmt: skip
        environment = release.environment(CHAOS_RUNS=str(self._runs), CHAOS_SERVER=server.url)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def await_runs(self, count: int) -> None:
        """Until so many have come to their end here."""
        assert eventually(
            lambda: self._runs.exists() and self._runs.read_bytes().count(b"ended ") >= count, PROGRESS_S
        ), f"{self.life}: {self.log.read_text()}"

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self.life.ended, self.life.how = time.monotonic(), "killed"

    def stop(self) -> None:
        self.life.asked_to_stop = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(EXIT_S) == 0, self.log.read_text()
        self.life.ended, self.life.how = time.monotonic(), "stopped"


class MixedFleet(AbstractContextManager["MixedFleet"]):
    def __init__(self, server: RedisServer, directory: Path) -> None:
        self._server = server
        self._directory = directory
        self.processes: list[Process] = []
        self._producers: list[subprocess.Popen[bytes]] = []

    def start(self, release: Release) -> Process:
        process = Process(release, self._server, self._directory)
        self.processes.append(process)
        return process

    def produce(self, release: Release) -> None:
        command = [
            sys.executable, str(FOLDER / "upgrade" / "producer.py"), str(self._directory), self._server.url,
            f"{release.version}-{len(self._producers)}",
        ]  # fmt: skip
        self._producers.append(subprocess.Popen(command, cwd=self._directory, env=release.environment()))

    def replace(self, process: Process, release: Release, how: str) -> Process:
        """As a deploy does, or a crash; returns the successor once it works."""
        if how == "kill":
            process.kill()
        else:
            process.stop()
        successor = self.start(release)
        successor.await_runs(5)
        return successor

    def account(self) -> Account:
        """Ends the producers, and when nothing waits and nothing runs, the processes."""
        (self._directory / "enough").touch()
        assert [producer.wait(EXIT_S) for producer in self._producers] == [0] * len(self._producers)
        client = self._server.client()
        drained = eventually(lambda: not what_is_left(client).lists, DRAIN_S)
        for process in self.processes:
            if process.life.how == "lives":
                process.stop()
        judge = Judge([process.life for process in self.processes], [])
        result = account(read_pushes(self._directory), read_runs(self._directory), what_is_left(client), judge)
        if not drained:
            result.complaints.append(f"not drained after {DRAIN_S:.0f} s")
        faults = [
            process.log for process in self.processes if " CRITICAL: " in process.log.read_text("utf-8", "replace")
        ]
        result.complaints += [f"{log.name}: a thread failed" for log in faults]
        return result

    def __exit__(self, *_: object) -> None:
        for producer in self._producers:
            producer.kill()
            producer.wait()
        for process in self.processes:
            process.kill()
