"""The parts of a pool that each of its queues has for itself."""

from __future__ import annotations

from goworkers_py.core.home import Home
from goworkers_py.core.values import dataclass
from goworkers_py.observe.run_stats import RunStats
from goworkers_py.runtime.running.guard import Guard


@dataclass(frozen=True, slots=True)
class Lane:
    """Safe to share: each part has its locks inside."""

    queue: str
    guard: Guard  # with the chain around the jobs of this queue
    run_stats: RunStats
    home: Home  # the broker of the queue
