"""Processes and producers of several releases on one server, and the account of their jobs."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from apps import own_app
from chaos.judge import Judge
from chaos.ledger import Account, account
from chaos.nodes import Life
from chaos.notes import PIDS, Pushes, Run, read_pushes, read_runs, read_stated_runs
from chaos.run import what_is_left
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
SHAPED_PER_S = 40

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
            "--log-level", "warning", *shapes.settings(release, directory),
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

    def produce(self, release: Release) -> None:
        command = [
            sys.executable, str(FOLDER / "upgrade" / "producer.py"), str(self._directory), self._server.url,
            f"{release.version}-{len(self._producers)}",
        ]  # fmt: skip
        self._producers.append(subprocess.Popen(command, cwd=self._directory, env=release.environment()))

    def produce_stated(self, seed: int) -> None:
        """Jobs whose states are judged. All of them are retained: a former worker does not run them."""
        url = self._server.url
        self._pusher = Pusher(url, seed, STATED_PER_S, "short", retained_share=1.0)
        self._asker = CancelAsker(url, seed, self._pusher.to_cancel, self._pusher.pushed)
        for party in self._parties():
            party.start()

    def produce_shaped(self, seed: int) -> None:
        self._shapes = Shapes(self._server, self._directory, seed, SHAPED_PER_S)
        self._shapes.shaper.start()

    def push_for_ruby(self, count: int) -> None:
        assert self._shapes is not None
        self._shapes.push_for_ruby(count)

    def _parties(self) -> list[Pusher | CancelAsker | Shaper]:
        shaper = None if self._shapes is None else self._shapes.shaper
        return [party for party in (self._pusher, self._asker, shaper) if party is not None]

    def make_all_due(self) -> None:
        """Jobs that former workers have put off may wait for minutes."""
        self.stop_parties()
        assert [party.error for party in self._parties() if party.error] == []
        client = self._server.client()
        for raw in client.zrange("schedule", 0, -1):
            client.zadd("schedule", {raw: time.time()}, xx=True)

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
        drained = eventually(lambda: what_is_left(client).lists.keys() <= {shapes.ECHOES}, DRAIN_S)
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
            result.shapes = self._shapes.verdict(judge, self._knowing(), runs, echoes)
        if not drained:
            result.complaints.append(f"not drained after {DRAIN_S:.0f} s")
        faults = [
            process.log for process in self.processes if " CRITICAL: " in process.log.read_text("utf-8", "replace")
        ]
        result.complaints += [f"{log.name}: a thread failed" for log in faults]
        return result

    def _wrong_states(self, pushes: Pushes, runs: list[Run]) -> list[str]:
        """A tracked job whose last run was today's is known to have completed. The former release writes no records: a
        job that it has run at last must not seem to be known."""
        knowing = self._knowing()
        last_life = {run.jid: run.life for run in runs}  # the runs are in the order of their begins
        with own_app(self._server.url) as app:
            states = {jid: app.status(jid) for jid in pushes.pushed if jid.endswith(TRACKED) and jid in last_life}
        return [
            f"{jid} is {told.state}, verified={told.verified}, after a run of life {last_life[jid]}"
            for jid, told in states.items()
            if (told.state == "completed" and told.verified) != (last_life[jid] in knowing) or told.state == "unknown"
        ]

    def _knowing(self) -> set[int]:
        """The lives of this tree's processes."""
        return {process.life.number for process in self.processes if process.release.is_today}

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
