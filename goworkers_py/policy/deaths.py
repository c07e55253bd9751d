"""Which deaths of processes prove something of the job that a process ran alone, see `poison`.

Processes of one machine that die together were killed from outside, or one of them took the others along. That one of
them ran a suspect alone proves nothing then. A broker that recovers jobs looks at this before it names the suspect.
"""

from __future__ import annotations

from dataclasses import dataclass

# Processes whose deaths are found within this time died together.
TOGETHER_S = 3.0
# So did processes that fell silent within this time. Their leases end as far from each other as their last beats were,
# and a look may fall between. A beat may come late, so this is twice `heartbeat.BEAT_EVERY_S`.
SILENT_TOGETHER_S = 10.0
# A process is silent when it was not heard of for so long: half of a lease.
SILENT_S = 30.0


@dataclass(frozen=True, slots=True)
class Life:
    """Of one process; times in epoch seconds by the broker's clock."""

    machine: str
    began: float  # its first beat
    heard: float  # its last one
    died_at: float | None = None  # when it was declared dead


def died_together(dead: Life, other: Life, now: float) -> bool:
    if dead.died_at is None or other.machine != dead.machine:
        return False
    # One that was dead when the other began did not die with it.
    if other.died_at is not None and dead.began <= other.died_at and abs(other.died_at - dead.died_at) <= TOGETHER_S:
        return True
    return other.heard < now - SILENT_S and abs(other.heard - dead.heard) <= SILENT_TOGETHER_S
