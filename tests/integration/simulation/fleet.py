"""The simulated fleet: one server with its clock, daemons and producers on machines with theirs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from goworkers_py import App
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core import machine
from simulation.kernel import Kernel, Process
from simulation.machine import EPOCH
from simulation.network import Line, far_away

ADDRESS = "memory://simulation"


class Server:
    """The broker's server: its state, and its clock, which people may set."""

    def __init__(self, kernel: Kernel) -> None:
        self.ahead_s = 0.0
        self.state = State(lambda: EPOCH + kernel.now + self.ahead_s)

    def broker(self, config: Config) -> Broker:
        return MemoryBroker(
            self.state, DeadLimits(config.dead_max_jobs, config.dead_timeout), config.timing.lease_s
        )


Declare = Callable[[App, Process], object]


class Member:
    """A process of the fleet with an App of its own, whose broker is at the end of a line."""

    def __init__(self, kernel: Kernel, server: Server, name: str, queues: tuple[QueueConfig, ...]) -> None:
        self.kernel = kernel
        self.process = Process(kernel, name)
        self.line = Line(self.process)
        self.app = App()
        self.app._open_broker = lambda config: far_away(server.broker(config), self.line)  # type: ignore[method-assign]
        self.app.configure(broker=ADDRESS, timeout=25)
        self.app.use(dataclasses.replace(self.app.config, queues=queues))


class Daemon(Member):
    def start(self) -> None:
        self._asked = machine.SimpleQueue()
        self.kernel.spawn(self.process, "main", self._main)

    def _main(self) -> None:
        daemon = self.app.daemon()
        if daemon.start(machine.Event()):
            self._asked.get()
            daemon.stop()
        # The interpreter ends, and its other threads with it.
        self.kernel.at(self.kernel.now, self.process.kill)

    def terminate(self) -> None:
        self._asked.put("TERM")
