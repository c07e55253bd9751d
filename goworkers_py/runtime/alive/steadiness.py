"""Whether a missing lease shows that its owner is dead.

After an outage every lease has expired. Until all processes have had time to renew theirs, none of them may be declared
dead because of its expired lease.
"""

from __future__ import annotations

from goworkers_py.brokers.contracts.recoverable import Beat
from goworkers_py.core import machine
from goworkers_py.runtime.alive.lease import Lease

# If the broker's clock advances by more than this between two beats (half of a lease), the clock was set, or this
# machine stood still: other leases may have expired meanwhile although no process failed.
LONGEST_BETWEEN_BEATS_S = 30.0


class Steadiness:
    """Of the beats of one lease. The thread that beats calls `before` and `after`, any thread calls `proof`."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        # Since when all is steady (monotonic), and the proof of the last beat. One value, set in one step, because
        # other threads read both: an old time with a new proof would declare living processes dead.
        self._steady: tuple[float, str] | None = None
        self._server_time = 0.0  # of the last answer

    def before(self) -> float | None:
        """Called before each beat. Returns since when all is steady, for `after`. Nothing is steady if the beat fails:
        then `after` is not called."""
        steady, self._steady = self._steady, None
        # A lease that is not fresh: this machine may have slept, and other leases have expired meanwhile.
        return steady[0] if steady is not None and self._lease.fresh else None

    def after(self, since: float | None, answer: Beat, identity: str) -> bool:
        """`identity`: that of the lease before the beat. False when the broker has lost writes since then."""
        if identity != self._lease.identity or answer.server_time - self._server_time > LONGEST_BETWEEN_BEATS_S:
            since = None  # a broker that lost our lease may have lost others
        self._server_time = answer.server_time
        lost = since is not None and not answer.kept
        self._steady = machine.monotonic() if since is None or lost else since, answer.proof
        return not lost

    def proof(self, steady_s: float) -> str | None:
        """The proof of the last beat. None unless, for `steady_s` seconds, every beat was answered and found the lease
        as the beat before had left it."""
        steady = self._steady
        if steady is None or not self._lease.fresh or machine.monotonic() - steady[0] < steady_s:
            return None
        return steady[1]
