"""The broker in the memory of this process: it needs no server, and its jobs are lost when the process ends.

Its address is `memory://` or `memory://NAME`. All brokers that a process opens at one address hold the same jobs.
"""

from __future__ import annotations

import logging

from goworkers_py.brokers.broker import Broker, Capability, Reliability
from goworkers_py.brokers.memory.admin import MemoryAdmin
from goworkers_py.brokers.memory.control import MemoryControl
from goworkers_py.brokers.memory.endings import Endings
from goworkers_py.brokers.memory.fenced_state import FencedState
from goworkers_py.brokers.memory.leases import MemoryLeases
from goworkers_py.brokers.memory.state import DeadLimits, State
from goworkers_py.brokers.memory.store import MemoryStore
from goworkers_py.brokers.memory.transport import MemoryTransport
from goworkers_py.config.options import Config
from goworkers_py.core.fence import Fence
from goworkers_py.core.timing import TIMING

log = logging.getLogger(__name__)

_states: dict[str, State] = {}  # by address; any thread, each change is a single dict operation


def state_at(address: str) -> State:
    """The state that all brokers at this address share, until the process ends or `forget` is called."""
    return _states.setdefault(address, State())


def forget(address: str) -> None:
    """For tests: the next broker that is opened at this address holds no jobs. Open brokers keep their jobs."""
    _states.pop(address, None)


ALL = "all jobs, with the process"


class MemoryBroker(Broker):
    name = "memory"
    family = "memory"
    capabilities = frozenset(Capability) - {Capability.METRICS, Capability.SHARED, Capability.LASTING}
    reliability = Reliability(ALL, "there is no server", ALL, "there is no network")

    def __init__(
        self, state: State, dead_limits: DeadLimits, lease_s: float = TIMING.lease_s, fence: Fence | None = None
    ) -> None:
        if fence is not None:
            self.fence, state = fence, FencedState(state, fence)
        self.state, self.endings = state, (endings := Endings(state, dead_limits))
        self.transport = MemoryTransport(state, endings)
        self.store = MemoryStore(state, endings, dead_limits)
        self.recoverable = MemoryLeases(state, dead_limits, lease_s)
        self.control = MemoryControl(state)
        self.admin = MemoryAdmin(state, dead_limits)

    @classmethod
    def open(cls, config: Config) -> MemoryBroker:
        return cls(
            state_at(config.broker), DeadLimits(config.dead_max_jobs, config.dead_timeout), config.timing.lease_s
        )

    @classmethod
    def open_fenced(cls, config: Config, fence: Fence) -> MemoryBroker:
        limits = DeadLimits(config.dead_max_jobs, config.dead_timeout)
        return cls(state_at(config.broker), limits, config.timing.lease_s, fence)

    def warn_at_start(self) -> None:
        log.warning(
            "memory broker: jobs that are not done when this process ends are lost; to keep them, set another broker"
        )
