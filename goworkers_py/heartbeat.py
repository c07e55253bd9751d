"""The heartbeat thread: tells the server that this process lives, and learns when it was declared dead."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from goworkers_py.brokers.base import Broker, DeclaredDead, Presence
from goworkers_py.clock import Clock
from goworkers_py.errors import BrokerError
from goworkers_py.identity import Lease, awake_and_asleep, new_identity
from goworkers_py.outage import Outage
from goworkers_py.service import BrokerService

log = logging.getLogger(__name__)

BEAT_EVERY_S = 5.0
MOST_SKEW_S = 2.0
# The server forgets in the end whom it declared dead, see `leases.GONE_FOR_S`. Who was silent for long cannot ask any
# more, and must take it that others have its jobs.
FORGOTTEN_AFTER_S = 12 * 3600.0


class Heartbeat(BrokerService):
    def __init__(
        self,
        broker: Broker,
        lease: Lease,
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
        self._begun_at_most = begun_at_most
        self._process = process
        self._clock = clock
        self._after_beat = after_beat
        self._trouble = trouble
        self.round_trip_s = 0.0  # of the last beat
        self._one_at_a_time = threading.Lock()  # a worker beats too when it begins a trial
        self._trial = ""
        self._steady_since: float | None = None
        self._warned_of_skew = False

    def run_once(self) -> float:
        self.beat()
        self._after_beat()
        return BEAT_EVERY_S

    def beat(self) -> None:
        with self._one_at_a_time:
            asked_at = awake_and_asleep()
            if not self._lease.fresh:
                self._steady_since = None  # this machine may have slept, and the others' leases run out meanwhile
            try:
                server_time = self._ask()
            except BrokerError:
                self._steady_since = None
                raise
            self._lease.confirm(asked_at)
            self.round_trip_s = awake_and_asleep() - asked_at
            self._compare_clocks(server_time, self.round_trip_s)
            if self._steady_since is None:
                self._steady_since = time.monotonic()

    def put_on_trial(self, name: str, owner: str) -> bool:
        """Tells the server which suspect this process is about to run, see `poison`. False when `owner`, in whose
        list the suspect lies, is this process no more."""
        self._trial = name
        self.beat()
        return self._lease.identity == owner

    def _ask(self) -> float:
        try:
            if self._lease.silent_s > FORGOTTEN_AFTER_S:
                raise DeclaredDead(self._lease.identity)
            return self._broker.beat(self._presence(self._lease.identity))
        except DeclaredDead:
            dead, born = self._lease.identity, new_identity()
            self._lease.lapse()  # nothing is fetched or begun from here on
            server_time = self._broker.beat(self._presence(born))  # known to the server before its first use
            self._lease.replace(born)
            log.error("%s was not heard of for so long that its jobs were given to others; going on as %s", dead, born)
            return server_time

    def _presence(self, identity: str) -> Presence:
        return Presence(identity, self._begun_at_most(), self._process, self._trial, self._trouble())

    def _compare_clocks(self, server_time: float, round_trip_s: float) -> None:
        """What is due is due by the server's clock, so what is made due here must be reckoned by it too."""
        if round_trip_s > MOST_SKEW_S:
            return  # it tells nothing: this process may have been stopped in the middle
        skew_s = server_time - time.time() + round_trip_s / 2
        if abs(skew_s) <= MOST_SKEW_S:
            self._clock.offset_s = 0.0
            return
        self._clock.offset_s = skew_s
        if not self._warned_of_skew:
            self._warned_of_skew = True
            log.warning("this machine's clock is %.1f s off the server's, whose time is used", -skew_s)

    def steady_for(self) -> float:
        """Seconds since which every beat has got through.

        After an outage every lease has run out. Until the others have had time to renew theirs, none may be called
        dead for it.
        """
        since = self._steady_since
        return 0.0 if since is None or not self._lease.fresh else time.monotonic() - since
