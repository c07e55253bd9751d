"""The heartbeat thread: renews the lease of this process, and continues under a new identity if the lease expired. Then
it ends the runs of jobs that were given to other processes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from goworkers_py.brokers.contracts.recoverable import Beat, DeclaredDead, Recoverable
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.identity import new_identity
from goworkers_py.core.strikes import lock_outside_runs
from goworkers_py.core.timing import TIMING, Timing
from goworkers_py.runtime.alive.reporter import Reporter
from goworkers_py.runtime.alive.steadiness import Steadiness
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.shared import Shared

log = logging.getLogger(__name__)

MOST_SKEW_S = 2.0
# The broker forgets after a while which processes it declared dead, see GONE_FOR_S in `brokers.contracts.recoverable`.
# A process that was silent for longer than this cannot ask any more, and must assume that its jobs were recovered.
FORGOTTEN_AFTER_S = 12 * 3600.0


class Heartbeat(BrokerService):
    def __init__(
        self,
        recoverable: Recoverable,
        shared: Shared,
        reporter: Reporter,
        timing: Timing = TIMING,
        look_for_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`look_for_lost` ends the runs of jobs that this process does not hold any more: `recovering.lost_jobs`."""
        super().__init__("heartbeat", shared.outage)
        self._recoverable = recoverable
        self._lease = shared.lease
        self._clock = shared.clock
        self._quarantine = shared.quarantine
        self._reporter = reporter
        self._every_s = timing.beat_every_s
        self.round_trip_s = 0.0  # of the last beat
        self._steadiness = Steadiness(shared.lease)
        self._one_at_a_time = lock_outside_runs()  # beats are sent by this thread, and by a worker's for a suspect
        # The next three are changed under `_one_at_a_time`.
        self._born = ""  # the next identity, from when this one was declared dead until the broker knows the next
        self._warned_of_skew = False
        self._silent = False  # set by the thread that stops the process, before it takes `_one_at_a_time`
        self._asked = machine.Event()
        self._look_for_lost = look_for_lost

    def run_once(self) -> float:
        self._asked.clear()
        self.beat()
        try:
            self._reporter.report(self.round_trip_s)
        finally:
            self._look_for_lost()
        return self._every_s

    def beat_now(self) -> None:
        """Sends the next beat at once, because the state of this process has changed. From any thread."""
        self._asked.set()

    def wait_between(self, seconds: float) -> None:
        self._asked.wait(seconds)

    def wake(self) -> None:
        self._asked.set()

    def silence(self, timeout_s: float) -> bool:
        """Sends no more beats: the process deregisters. False when one is still on its way after `timeout_s`."""
        self._silent = True
        if not self._one_at_a_time.acquire(timeout=timeout_s):
            return False
        self._one_at_a_time.release()
        return True

    def beat(self) -> None:
        with self._one_at_a_time:
            if self._silent:
                return
            asked_at, wall_before, identity = machine.awake_and_asleep(), machine.time(), self._lease.identity
            since = self._steadiness.before()
            alone = self._quarantine.announcement()
            answer = self._ask(alone)
            answered_at = machine.awake_and_asleep()
            self.round_trip_s = answered_at - asked_at
            # First `_clock`, then `_lease`: a worker that waits in `Lease.await_confirmation` goes on as soon as the
            # lease is confirmed, and its job reads the clock.
            self._clock.synchronize(answer.server_time, asked_at, answered_at)
            self._lease.confirm(asked_at)
            self._quarantine.announced(alone)
            self._warn_of_skew(wall_before, answer.server_time, machine.time())
            if not self._steadiness.after(since, answer, identity):
                log.warning(
                    "the broker has lost writes: the lease of %s was not as its last beat left it; other leases may "
                    "have expired for the same reason, so this process recovers no jobs of expired leases until all "
                    "processes have had time to renew theirs",
                    self._lease.identity,
                )

    def _ask(self, alone: str) -> Beat:
        try:
            if self._lease.silent_s > FORGOTTEN_AFTER_S:
                raise DeclaredDead(self._lease.identity)
            return self._recoverable.beat(self._reporter.presence(self._lease.identity, alone))
        except DeclaredDead:
            self._lease.lapse()  # from here on no job is fetched or begun
            # If the reply to the first beat of a new identity was lost, `_born` still has that identity. It is used
            # again, because it may hold the fixed process name by now.
            self._born = born = self._born or new_identity()
            try:
                # The broker knows the new identity before the first fetch under it.
                answer = self._recoverable.beat(self._reporter.presence(born, alone))
            except DeclaredDead as error:  # its replies were lost for so long that it expired too
                self._born = ""
                raise BrokerUnavailable(f"{born} was declared dead before its first use") from error
            dead = self._lease.identity
            self._lease.replace(born)
            self._born = ""
            log.error("lease of %s expired and its jobs were recovered; continuing as %s", dead, born)
            self.beat_now()  # where a worker's thread beats, this one is to look for jobs that were given to others
            return answer

    def _warn_of_skew(self, before: float, server_time: float, after: float) -> None:
        """`before` and `after` the answer, by the wall clock: however long it took, the server's time lies between."""
        skew_s = max(before - server_time, 0.0) + min(after - server_time, 0.0)
        if abs(skew_s) > MOST_SKEW_S and not self._warned_of_skew:
            self._warned_of_skew = True
            log.warning("this machine's clock is %.1f s off the server's, whose time is used; synchronise it", skew_s)

    def proof(self, steady_s: float) -> str | None:
        """See `Steadiness.proof`."""
        return self._steadiness.proof(steady_s)
