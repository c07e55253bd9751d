"""Processes and producers of several releases on one server, and the account of their jobs."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import AbstractContextManager
from pathlib import Path

from apps import own_app
from chaos.judge import Judge
from chaos.ledger import Account, account
from chaos.nodes import Life
from chaos.notes import PIDS, Pushes, Run, read_pushes, read_runs, read_stated_runs
from chaos.run import EMPTY_LOOKS, what_is_left
from chaos.shaper import Shaper
from chaos.state_judge import StateJudge
from chaos.states import CancelAsker, Pusher, look_at_all
from servers import RedisServer
from waiting import eventually

from upgrade import shapes
from upgrade.producer import TRACKED
from upgrade.releases import FOLDER, Release
from upgrade.shapes import Shapes

STOP_TIMEOUT_S = 2  # for running jobs
EXIT_S = 30
PROGRESS_S = 60.0
DRAIN_S = 120.0
STATED_PER_S = 4
SHAPED_PER_S = 25

_numbers = itertools.count(1)


class Process:
    """`pyworkers run` of a release. It starts at once."""

    def __init__(self, release: Release, server: RedisServer, directory: Path) -> None:
        number, began = next(_numbers), time.monotonic()
        self.release = release
        self.log = directory / f"log-{number}-{release.version}"
        command = [
            sys.executable, "-m", "goworkers_py.cli", "run", "--redis", server.url, "--require", "chaos.work",
            "--require", "chaos.stated", "--timeout", str(STOP_TIMEOUT_S), "--poll-interval", "0.5",
            "--log-level", "warning", *shapes.settings(directory),
        ]  # fmt: skip
        runs = directory / f"runs-{number}{{pid:07}}"
        environment = release.environment(CHAOS_RUNS=str(runs), CHAOS_SERVER=server.url)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        pid = self._process.pid
        self.life = Life(number * PIDS + pid, release.version, began, pid=pid)
        self._runs = directory / f"runs-{self.life.number}"

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
        self._pusher: Pusher | None = None
        self._asker: CancelAsker | None = None
        self._shapes: Shapes | None = None

    def start(self, release: Release) -> Process:
        process = Process(release, self._server, self._directory)
        self.processes.append(process)
        return process

    def command(self, release: Release, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of this release that ends by itself."""
        return subprocess.run(
            [sys.executable, "-m", "goworkers_py.cli", *arguments], cwd=self._directory,
            env=release.environment(PYWORKERS_BROKER=self._server.url), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=EXIT_S,
        )  # fmt: skip

    def produce(self, release: Release) -> None:
        command = [
            sys.executable, str(FOLDER / "upgrade" / "producer.py"), str(self._directory), self._server.url,
            f"{release.version}-{len(self._producers)}",
        ]  # fmt: skip
        self._producers.append(subprocess.Popen(command, cwd=self._directory, env=release.environment()))

    def produce_stated(self, seed: int) -> None:
        """Jobs whose states are judged. All of them are retained."""
        url = self._server.url
        self._pusher = Pusher(url, seed, STATED_PER_S, "short", retained_share=1.0)
        self._asker = CancelAsker(url, seed, self._pusher.to_cancel, self._pusher.pushed)
        self._pusher.start()
        self._asker.start()

    def produce_shaped(self, seed: int) -> None:
        self._shapes = Shapes(self._server, self._directory, seed, SHAPED_PER_S)
        self._shapes.shaper.start()

    def push_for_ruby(self, count: int) -> None:
        assert self._shapes is not None
        self._shapes.push_for_ruby(count)

    def _parties(self) -> list[Pusher | CancelAsker | Shaper]:
        shaper = None if self._shapes is None else self._shapes.shaper
        return [party for party in (self._pusher, self._asker, shaper) if party is not None]

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
        self.stop_parties()
        assert [party.error for party in self._parties() if party.error] == []
        assert [producer.wait(EXIT_S) for producer in self._producers] == [0] * len(self._producers)
        client = self._server.client()
        # A job that moves from one list to another between the looks at the two is in none: not so several times.
        looks = deque[bool](maxlen=EMPTY_LOOKS)

        def nothing_is_left() -> bool:
            looks.append(what_is_left(client).lists.keys() <= {shapes.ECHOES})
            return len(looks) == EMPTY_LOOKS and all(looks)

        drained = eventually(nothing_is_left, DRAIN_S, 0.1)
        for process in self.processes:
            if process.life.how == "lives":
                process.stop()
        judge = Judge([process.life for process in self.processes], [])
        echoes = shapes.take_echoes(client)
        pushes, runs = read_pushes(self._directory), read_runs(self._directory)
        result = account(pushes, runs, what_is_left(client), judge)
        result.complaints += self._wrong_states(pushes, runs)
        if self._pusher is not None:
            state_judge = StateJudge(judge, [*runs, *read_stated_runs(self._directory)], time.time() - time.monotonic())
            pushed = self._pusher.pushed
            result.states = state_judge.verdict(pushed, look_at_all(self._server.url, pushed))
        if self._shapes is not None:
            result.shapes = self._shapes.verdict(judge, runs, echoes)
        if not drained:
            result.complaints.append(f"not drained after {DRAIN_S:.0f} s")
        faults = [
            process.log for process in self.processes if " CRITICAL: " in process.log.read_text("utf-8", "replace")
        ]
        result.complaints += [f"{log.name}: a thread failed" for log in faults]
        return result

    def _wrong_states(self, pushes: Pushes, runs: list[Run]) -> list[str]:
        """A tracked job that has run is known to have completed, whichever release has run it."""
        ran = {run.jid for run in runs}
        with own_app(self._server.url) as app:
            states = {jid: app.status(jid) for jid in pushes.pushed if jid.endswith(TRACKED) and jid in ran}
        return [
            f"{jid} is {told.state}, verified={told.verified}"
            for jid, told in states.items()
            if (told.state, told.verified) != ("completed", True)
        ]

    def stop_parties(self) -> None:
        for party in self._parties():
            party.stopping.set()
        for party in self._parties():
            party.join()

    def __exit__(self, *_: object) -> None:
        self.stop_parties()
        for producer in self._producers:
            producer.kill()
            producer.wait()
        for process in self.processes:
            process.kill()
