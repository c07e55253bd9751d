"""The broker's server of a simulated fleet: what it keeps, and its clock, which people may set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.transport import PublishResult
from goworkers_py.brokers.memory.broker import MemoryBroker
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.config.options import Config
from goworkers_py.core.effect import Push
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.job_state import JobState
from goworkers_py.features.groups.memory import GroupTable
from goworkers_py.features.periodic.contract import Periodic
from simulation.kernel import Kernel, Process
from simulation.machine import EPOCH
from simulation.network import Line, far_away


@dataclass(frozen=True)
class Contents:
    """The payloads of all jobs that the server has; of lines, outboxes and groups only how many they hold."""

    queues: Mapping[str, Sequence[bytes]]
    in_progress: Mapping[str, Sequence[bytes]]  # by the identity
    retries: Sequence[bytes]
    scheduled: Sequence[bytes]
    dead: Sequence[bytes]
    lines: Mapping[str, int]
    outboxes: Mapping[str, int]
    groups: int

    @property
    def is_quiet(self) -> bool:
        """Whether all jobs have ended."""
        some = self.queues, self.in_progress, self.retries, self.scheduled, self.lines, self.outboxes
        return not any(some) and not self.groups


class Server(ABC):
    address: str
    cannot: frozenset[str]  # faults that have no effect on it

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.is_away = False
        self.steps: list[tuple[float, float]] = []  # of its clock: when, and by how many seconds
        self._ahead_s = 0.0
        self._newest = 0.0

    def time(self) -> float:
        return EPOCH + self.kernel.now + self._ahead_s

    def newest_time(self) -> float:
        """The most that the clock has shown until now."""
        self._newest = max(self._newest, self.time())
        return self._newest

    def step(self, seconds: float) -> None:
        self.newest_time()
        self._ahead_s += seconds
        self.steps.append((self.kernel.now, seconds))

    def line(self, process: Process) -> Line:
        return Line(process, lambda: self.is_away)

    @abstractmethod
    def broker(self, config: Config, line: Line) -> Broker:
        """The broker of a process, at the end of its line."""

    @abstractmethod
    def fill(self, full: bool) -> None:
        """Whether it has room for nothing more."""

    def damage(self, limit: str, key: str) -> bool:
        """Some other program writes where the places of a limit would be; False where they are already."""
        return False

    def repair(self, limit: str, key: str) -> None:  # noqa: B027
        """Removes what `damage` wrote."""

    @abstractmethod
    def push_raw(self, queue: str, payload: bytes, copies: int) -> None:
        """As a program in another language does."""

    @abstractmethod
    def contents(self) -> Contents: ...

    def close(self) -> None:  # noqa: B027  # not every server has something to close
        """After the run."""


class _State(State):
    refuses = False

    def publish_within(self, pushes: Sequence[Push]) -> list[PublishResult]:
        if self.refuses:
            raise BrokerRefused("the server is full")
        return super().publish_within(pushes)


class MemoryServer(Server):
    address = "memory://simulation"
    cannot = frozenset({"a damaged key"})

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._state = _State(self.time)
        self._full = False

    def broker(self, config: Config, line: Line) -> Broker:
        limits = DeadLimits(config.dead_max_jobs, config.dead_timeout)
        broker = MemoryBroker(self._state, limits, config.timing.lease_s)
        fire = broker.require_part(Periodic).fire

        def fire_unless_full(*args: Any) -> Any:
            """A full server refuses the push of a periodic job, of all writes: its step undoes what it has done."""
            self._state.refuses = self._full
            try:
                return fire(*args)
            finally:
                self._state.refuses = False

        broker.require_part(Periodic).fire = fire_unless_full  # type: ignore[method-assign]
        return far_away(broker, line)

    def fill(self, full: bool) -> None:
        self._full = full

    def push_raw(self, queue: str, payload: bytes, copies: int) -> None:
        self._state.publish([Push(queue, payload) for _ in range(copies)])

    def contents(self) -> Contents:
        state = self._state
        retries, scheduled, dead = (
            [job.payload for job in state.timed[kind]] for kind in (JobState.RETRY, JobState.SCHEDULED, JobState.DEAD)
        )
        held = {
            identity: [payload for jobs in record.in_progress.values() for payload in jobs.values()]
            for identity, record in state.leases.items()
        }
        return Contents(
            {name: list(jobs.values()) for name, jobs in state.queues.items() if jobs},
            {identity: payloads for identity, payloads in held.items() if payloads},
            retries,
            scheduled,
            dead,
            {name: len(jobs) for name, jobs in state.lines.items()},
            {name: len(pushes) for name, pushes in state.outboxes.items()},
            len(list(state.part(GroupTable).entries())),
        )
