"""The parts that all threads of a process use."""

from __future__ import annotations

from dataclasses import field

from goworkers_py.core.clock import Clock
from goworkers_py.core.values import dataclass
from goworkers_py.observe.counters import Counters
from goworkers_py.runtime.alarms import Alarms
from goworkers_py.runtime.alive.lease import Lease
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.run_state import RunState
from goworkers_py.runtime.running.quarantine import Quarantine


@dataclass(frozen=True)
class Shared:
    """Each part is safe to share: it has its locks inside, or only one thread at a time writes it."""

    clock: Clock
    lease: Lease
    outage: Outage
    counters: Counters
    quarantine: Quarantine
    state: RunState
    alarms: Alarms = field(default_factory=Alarms)
