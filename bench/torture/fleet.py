"""The workers. Each is started again a second after its end, as a service manager would do it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from bench.programs import Program
from bench.torture.ledger import Ledger
from bench.torture.proxy import Proxy
from bench.torture.systems.system import Place, System

RESTART_S = 1.0
STOP_S = 30.0  # from TERM to kill -9, as Kubernetes does it unless told otherwise
HOLD_S = 5.0  # that all processes of a worker stand still


class Worker:
    """Used by the main thread only."""

    def __init__(self, name: str, system: System, port: int, ledger: Ledger, folder: Path) -> None:
        self.name = name
        self.proxy = Proxy(port)
        self._system, self._ledger, self._folder = system, ledger, folder
        self._lives = 0
        self._program: Program | None = None
        self._start_at = 0.0
        self._kill_at = 0.0  # 0: it was not asked to stop

    @property
    def life(self) -> str:
        """The name of its present process, or of its last one."""
        return f"{self.name}.{self._lives}"

    def look(self) -> None:
        """Notes that its process has ended, and starts the next one when it is time. To be called again and again."""
        if self._program is None:
            if time.monotonic() >= self._start_at:
                self._start()
        elif self._program.ended:
            self._end("stopped" if self._kill_at else "by-itself")
        elif self._kill_at and time.monotonic() > self._kill_at:
            self.kill("did-not-stop")

    def _start(self) -> None:
        self._lives += 1
        place = Place(self.proxy.url, self.name, self._ledger.path, self._folder)
        environment = {**self._system.environment(place), "TORTURE_LIFE": self.life}
        log = self._folder / f"{self.life}.log"
        self._program = Program(self._system.worker(place), environment, log)
        self._ledger.note("up", self.life)

    def _end(self, why: str) -> None:
        assert self._program is not None
        self._program.kill()
        for pid in self._program.pids():  # what it has left behind
            _signal(pid, signal.SIGKILL)
        self._ledger.note("down", self.life, why)
        self._program, self._kill_at = None, 0.0
        self._start_at = time.monotonic() + RESTART_S

    def kill(self, why: str = "killed") -> None:
        if self._program is not None:
            for pid in self._program.pids():
                _signal(pid, signal.SIGKILL)
            self._end(why)

    def stop(self) -> None:
        if self._program is not None and not self._kill_at:
            self._kill_at = time.monotonic() + STOP_S
            _signal(self._program.pid, signal.SIGTERM)

    def pause(self) -> None:
        if self._program is not None:
            self._hold()

    def go_on(self) -> None:
        if self._program is not None:
            for pid in self._program.pids():
                _signal(pid, signal.SIGCONT)

    def _hold(self) -> None:
        """Stops all its processes, also one that another one has just forked."""
        assert self._program is not None
        held: set[int] = set()
        deadline = time.monotonic() + HOLD_S
        while (new := set(self._program.pids()) - held) and time.monotonic() < deadline:
            for pid in new:
                _signal(pid, signal.SIGSTOP)
            held |= new

    def close(self) -> None:
        """Asks it to stop first, so that its log tells of its end."""
        deadline = time.monotonic() + STOP_S
        while self._program is not None and time.monotonic() < deadline:
            self.stop()
            if self._program.ended:
                self._end("stopped")
            time.sleep(0.02)
        self.kill("did-not-stop")
        self.proxy.close()


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
