"""The parts of a pool that each of its queues has for itself."""

from __future__ import annotations

from dataclasses import dataclass

from goworkers_py.observe.run_stats import RunStats
from goworkers_py.runtime.flow import Flow
from goworkers_py.runtime.guard import Guard
from goworkers_py.runtime.settler import Settler


@dataclass(frozen=True, slots=True)
class Lane:
    """Safe to share: each part has its locks inside."""

    flow: Flow
    guard: Guard  # with the chain around the jobs of this queue
    settler: Settler
    run_stats: RunStats
