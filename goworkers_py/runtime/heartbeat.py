"""The heartbeat thread: tells the server that this process lives, and learns when it was declared dead."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from goworkers_py.brokers.contracts import Beat, Broker, DeclaredDead, Presence
from goworkers_py.core.clock import Clock, awake_and_asleep
from goworkers_py.core.errors import BrokerUnavailable
from goworkers_py.core.identity import new_identity
from goworkers_py.runtime.lease import Lease
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.quarantine import Quarantine
from goworkers_py.runtime.service import BrokerService

log = logging.getLogger(__name__)

BEAT_EVERY_S = 5.0
# When the server's clock goes on by more than this from one beat to the next (half of a lease), it was set, or this
# machine stood still: other leases may have run out meanwhile, and nobody failed for it.
LONGEST_BETWEEN_BEATS_S = 30.0
MOST_SKEW_S = 2.0
# The server forgets in the end whom it declared dead, see `leases.GONE_FOR_S`. Who was silent for long cannot ask any
# more, and must take it that others have its jobs.
FORGOTTEN_AFTER_S = 12 * 3600.0


class Heartbeat(BrokerService):
    def __init__(
        self,
        broker: Broker,
        lease: Lease,
        quarantine: Quarantine,
        begun_at_most: Callable[[], Mapping[str, int]],
        process: str,
        clock: Clock,
        outage: Outage,
        after_beat: Callable[[], None] = lambda: None,
        trouble: Callable[[], str] = lambda: "",
    ) -> None:
        super().__init__("heartbeat", outage)
        self._broker = broker
        self._lease = lease
        self._quarantine = quarantine
        self._begun_at_most = begun_at_most
        self._process = process
        self._clock = clock
        self._after_beat = after_beat
        self._trouble = trouble
        self.round_trip_s = 0.0  # of the last beat
        self._one_at_a_time = threading.Lock()  # a worker beats too, for a suspect
        # All that follows is changed under that lock.
        self._born = ""  # the next identity, from when this one was declared dead to when the server knows the next
        # Since when all is steady (monotonic), and the proof of the last beat. One value, set in one step, because the
        # recoverer's thread reads both: an old time beside a new proof would declare living processes dead.
        self._steady: tuple[float, str] | None = None
        self._server_time = 0.0  # of the last answer
        self._warned_of_skew = False
        self._silent = False
        self._asked = threading.Event()

    def run_once(self) -> float:
        self._asked.clear()
        self.beat()
        self._after_beat()
        return BEAT_EVERY_S

    def beat_now(self) -> None:
        """Something has changed that the others should learn of. From any thread."""
        self._asked.set()

    def wait_between(self, seconds: float) -> None:
        self._asked.wait(seconds)

    def wake(self) -> None:
        self._asked.set()

    def silence(self, timeout_s: float) -> bool:
        """No beat is sent from here on: the process says farewell. False when one is still on its way."""
        self._silent = True
        if not self._one_at_a_time.acquire(timeout=timeout_s):
            return False
        self._one_at_a_time.release()
        return True

    def beat(self) -> None:
        with self._one_at_a_time:
            if self._silent:
                return
            asked_at, identity = awake_and_asleep(), self._lease.identity
            # Nothing is steady until the last line here is reached, whatever is raised before.
            steady, self._steady = self._steady, None
            if not self._lease.fresh:
                steady = None  # this machine may have slept, and the others' leases run out meanwhile
            alone = self._quarantine.announcement()
            answer = self._ask(alone)
            if identity != self._lease.identity or answer.server_time - self._server_time > LONGEST_BETWEEN_BEATS_S:
                steady = None  # a server that lost our lease may have lost the others' too
            self._server_time = answer.server_time
            answered_at = awake_and_asleep()
            self.round_trip_s = answered_at - asked_at
            # First the time, then the lease: jobs that waited for word of the lease look at the time.
            self._clock.hear(answer.server_time, asked_at, answered_at)
            self._lease.confirm(asked_at)
            self._quarantine.announced(alone)
            self._warn_of_skew(answer.server_time)
            if not answer.kept:
                if steady is not None:
                    log.warning(
                        "Redis has lost writes: the lease of %s was not as its last beat left it; other leases may "
                        "have run out for the same reason, so this process recovers no jobs by leases until all have "
                        "had time to be renewed",
                        self._lease.identity,
                    )
                steady = None
            self._steady = steady[0] if steady else time.monotonic(), answer.proof

    def _ask(self, alone: str) -> Beat:
        try:
            if self._lease.silent_s > FORGOTTEN_AFTER_S:
                raise DeclaredDead(self._lease.identity)
            return self._broker.beat(self._presence(self._lease.identity, alone))
        except DeclaredDead:
            self._lease.lapse()  # nothing is fetched or begun from here on
            # The same one when the reply to its first beat was lost: it may hold the fixed process name by now.
            self._born = born = self._born or new_identity()
            try:
                answer = self._broker.beat(self._presence(born, alone))  # known to the server before its first use
            except DeclaredDead as error:  # the replies were lost for so long that this one died too
                self._born = ""
                raise BrokerUnavailable(f"{born} was declared dead before its first use") from error
            dead = self._lease.identity
            self._lease.replace(born)
            self._born = ""
            log.error("%s was not heard of for so long that its jobs were given to others; going on as %s", dead, born)
            return answer

    def _presence(self, identity: str, alone: str) -> Presence:
        return Presence(identity, self._begun_at_most(), self._process, alone, self._trouble())

    def _warn_of_skew(self, server_time: float) -> None:
        # A round trip that takes long, or that this process was stopped in, tells nothing of the wall clock.
        if self._warned_of_skew or self.round_trip_s > MOST_SKEW_S:
            return
        skew_s = time.time() - server_time - self.round_trip_s / 2
        if abs(skew_s) > MOST_SKEW_S:
            self._warned_of_skew = True
            log.warning("this machine's clock is %.1f s off the server's, whose time is used", skew_s)

    def proof(self, steady_s: float) -> str | None:
        """The proof of the last beat; None where not every beat of so many seconds has got through, and has found what
        the one before had left.

        After an outage every lease has run out. Until the others have had time to renew theirs, none may be called
        dead for it.
        """
        steady = self._steady
        if steady is None or not self._lease.fresh or time.monotonic() - steady[0] < steady_s:
            return None
        return steady[1]
