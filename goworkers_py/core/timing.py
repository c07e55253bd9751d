"""The times of leases, which a whole fleet has in common. No option: a fleet with different ones loses jobs to itself.
Tests have shorter ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    lease_s: float = 60.0  # without a beat, a lease lives for so long
    # For so long after a beat a process relies on its lease: less than that, by what a beat may need to get there.
    lease_fresh_s: float = 50.0
    beat_every_s: float = 5.0
    recover_every_s: float = 15.0
    # After an outage, and when the broker came back with an older state, nobody is declared dead by a lease for as
    # long as a lease lives: all that live have renewed theirs by then.
    steady_for_s: float = 60.0


TIMING = Timing()
