"""The simulated fleet: one server with its clock, daemons and producers on machines with theirs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

from goworkers_py import App
from goworkers_py.config.options import QueueConfig
from goworkers_py.core import machine
from simulation.jobs import Jobs
from simulation.kernel import Kernel, Process
from simulation.ledger import TROUBLES, Ledger
from simulation.server import Server

QUEUES = (QueueConfig(name="work", concurrency=3),)
TIMEOUT_S = 25  # of a stop


class Member:
    """A process with an App of its own, whose broker is at the end of a line."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.process = Process(fleet.kernel, name)
        self.line = fleet.server.line(self.process)
        self.app = App()
        self.app._open_broker = lambda config: fleet.server.broker(config, self.line)  # type: ignore[method-assign]
        self.app.configure(broker=fleet.server.address, timeout=TIMEOUT_S)
        self.app.use(dataclasses.replace(self.app.config, queues=QUEUES))
        self.jobs = Jobs(self.app, self.process, fleet.ledger, fleet.server.time, fleet.server.newest_time)

    def spawn(self, name: str, code: Callable[[], object]) -> None:
        self.process.kernel.spawn(self.process, name, code)


class Daemon(Member):
    def __init__(self, fleet: Fleet, name: str) -> None:
        super().__init__(fleet, name)
        self._fleet = fleet
        self._asked: Any = machine.SimpleQueue()
        self._stop_asked = machine.Event()
        self.spawn("main", self._main)

    def _main(self) -> None:
        daemon = self.app.runner.daemon()
        if daemon.start(self._stop_asked):
            self._asked.get()
            daemon.stop()
        # The interpreter ends, and its other threads with it.
        kernel = self.process.kernel
        kernel.at(kernel.now, lambda: self._fleet.ended(self))

    @property
    def stops(self) -> bool:
        return bool(self._stop_asked.is_set())

    def terminate(self) -> None:
        """Sends TERM."""
        if not self.stops:
            self._fleet.ledger.gives_back[self.process] = self.process.kernel.now + TIMEOUT_S - 0.1
        self._stop_asked.set()
        self._asked.put("TERM")


class Fleet:
    """Changed between two steps only."""

    def __init__(self, kernel: Kernel, server: Server, size: int, producers: int) -> None:
        self.kernel = kernel
        self.ledger = Ledger(server.steps)
        self.server = server
        self._size = size
        self.sleeps = False  # whoever ends is not replaced
        self._numbers = itertools.count(1)
        self.daemons: list[Daemon] = []
        self.producers = [Member(self, f"producer {number}") for number in range(1, producers + 1)]
        self.everybody: list[Member] = [*self.producers]
        self.start_all()

    @property
    def _is_whole(self) -> bool:
        """A daemon that stops has its successor beside it."""
        return sum(not daemon.stops for daemon in self.daemons) >= self._size

    def start_all(self) -> None:
        self.sleeps = False
        while not self._is_whole:
            self.start_one()

    def start_one(self) -> None:
        if not self._is_whole and not self.sleeps:
            daemon = Daemon(self, f"daemon {next(self._numbers)}")
            self.daemons.append(daemon)
            self.everybody.append(daemon)

    def kill(self, daemon: Daemon) -> None:
        if daemon.process.alive:
            self.ledger.killed[daemon.process] = self.kernel.now
        self.ended(daemon)

    def ended(self, daemon: Daemon) -> None:
        self.ledger.gone.setdefault(daemon.process, self.kernel.now)
        daemon.process.kill()
        if daemon in self.daemons:
            self.daemons.remove(daemon)

    def replace_producer(self) -> Member:
        """Kills one and starts another."""
        place = int(self.kernel.random.random() * len(self.producers))
        old = self.producers[place]
        self.ledger.killed[old.process] = self.ledger.gone[old.process] = self.kernel.now
        old.process.kill()
        new = self.producers[place] = Member(self, f"producer {len(self.everybody)}")
        self.everybody.append(new)
        return new

    def terminate_all(self) -> None:
        for daemon in self.daemons:
            daemon.terminate()

    def end_outage(self) -> None:
        self.server.is_away = False
        for member in (*self.daemons, *self.producers):
            member.line.look_for_news()

    def calm(self) -> None:
        """Whatever still troubles somebody ends."""
        self.end_outage()
        for member in (*self.daemons, *self.producers):
            if member.process.paused:
                member.process.resume()
            member.line.trap, member.line.late = None, ""
            member.line.heal()
            for why in TROUBLES:
                self.ledger.trouble_ends(member.process, why)
