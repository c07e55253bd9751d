"""The times of leases, the same for a whole fleet. They are no options: with different times, live processes of a fleet
would recover jobs from each other. Tests use shorter times."""

from __future__ import annotations

from goworkers_py.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    lease_s: float = 60.0  # a lease expires so long after the last beat
    # A process trusts its lease for so long after it has sent a beat. Shorter than `lease_s`, as a margin for the time
    # that a beat needs to reach the server.
    lease_fresh_s: float = 50.0
    beat_every_s: float = 5.0
    recover_every_s: float = 15.0
    # After an outage, or when the broker came back with an older state, no process is declared dead by its lease for
    # so long. It is the life of a lease: by then every live process has renewed its own.
    steady_for_s: float = 60.0
    # How long `pyworkers recover` waits for a beat of each process whose lease has expired. After an outage, live
    # processes reconnect within some seconds and then beat at once.
    await_beat_s: float = 15.0


TIMING = Timing()
