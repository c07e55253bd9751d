"""Decides whether processes died together: then a death in quarantine proves nothing about the suspect, see `poison`.

Processes of one machine that die together were killed from outside, or one of them caused the deaths of the others. A
broker that recovers jobs asks `died_together` before it names the suspect of a dead process.
"""

from __future__ import annotations

from goworkers_py.core.timing import TIMING
from goworkers_py.core.values import dataclass

# Processes whose deaths are found within this time died together.
TOGETHER_S = 3.0
# Processes whose last beats are at most so far apart died together too. Their leases expire as far apart as their last
# beats were, and a recovery may look in between. A beat may come late.
SILENT_TOGETHER_S = 2 * TIMING.beat_every_s
# A process is silent if its last beat is older than this.
SILENT_S = TIMING.lease_s / 2


@dataclass(frozen=True, slots=True)
class Life:
    """The facts about one process; times are epoch seconds by the broker's clock."""

    machine: str  # `machine` of its `core.proc.origin()`
    began: float  # time of its first beat
    heard: float  # time of its last beat
    died_at: float | None = None  # when it was declared dead; None if it was not


def died_together(dead: Life, other: Life, now: float) -> bool:
    """A broker asks this for every other identity that it remembers: also for one that has a lease, because it may have
    died and its lease not yet expired. One that left may be asked for or left out."""
    if dead.died_at is None or other.machine != dead.machine:
        return False
    # A process that was dead before `dead` began did not die together with it.
    if other.died_at is not None and dead.began <= other.died_at and abs(other.died_at - dead.died_at) <= TOGETHER_S:
        return True
    return other.heard < now - SILENT_S and abs(other.heard - dead.heard) <= SILENT_TOGETHER_S
