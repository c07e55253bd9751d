"""The heartbeat thread: tells the server that this process lives, and learns when it was declared dead."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from goworkers_py.brokers.base import Broker, DeclaredDead
from goworkers_py.errors import BrokerError
from goworkers_py.identity import Lease, awake_and_asleep
from goworkers_py.outage import Outage
from goworkers_py.service import BrokerService

log = logging.getLogger(__name__)

BEAT_EVERY_S = 5.0


class Heartbeat(BrokerService):
    def __init__(self, broker: Broker, lease: Lease, queues: Sequence[str], process: str, outage: Outage) -> None:
        super().__init__("heartbeat", outage)
        self._broker = broker
        self._lease = lease
        self._queues = queues
        self._process = process
        self._steady_since: float | None = None

    def run_once(self) -> float:
        self.beat()
        return BEAT_EVERY_S

    def beat(self) -> None:
        asked_at = awake_and_asleep()
        try:
            self._broker.beat(self._lease.identity, self._queues, self._process)
        except DeclaredDead:
            dead = self._lease.identity
            self._lease.replace()
            log.error(
                "%s was not heard of for so long that its jobs were given to others; going on as %s",
                dead, self._lease.identity,
            )  # fmt: skip
            self._broker.beat(self._lease.identity, self._queues, self._process)
        except BrokerError:
            self._steady_since = None
            raise
        self._lease.confirm(asked_at)
        if self._steady_since is None:
            self._steady_since = time.monotonic()

    def steady_for(self) -> float:
        """Seconds since which every beat has got through.

        After an outage every lease has run out. Until the others have had time to renew theirs, none may be called
        dead for it.
        """
        since = self._steady_since
        return 0.0 if since is None else time.monotonic() - since
