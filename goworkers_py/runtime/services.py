"""The threads of a daemon that serve all its queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from goworkers_py.core.values import dataclass
from goworkers_py.runtime.alive.heartbeat import Heartbeat
from goworkers_py.runtime.fetching.pauses import Pauses
from goworkers_py.runtime.recovering.recoverer import Recoverer
from goworkers_py.runtime.running.watchdog import Watchdog
from goworkers_py.runtime.scheduling.relay import Relay
from goworkers_py.runtime.scheduling.scheduler import Scheduler
from goworkers_py.runtime.service import BrokerService, Service


@dataclass(frozen=True)
class Services:
    heartbeat: Heartbeat
    recoverer: Recoverer
    watchdog: Watchdog
    pauses: Pauses
    scheduler: Scheduler
    relay: Relay
    of_features: Sequence[BrokerService] = ()

    def __iter__(self) -> Iterator[Service]:
        """In the order in which they start. They are told to stop in it too, but for the relay, which goes on until the
        settlers have ended. Without the heartbeat, which starts before them and ends behind them."""
        return iter(
            (
                self.recoverer,
                self.watchdog,
                self.pauses,
                self.scheduler,
                self.relay,
                *self.of_features,
            )
        )
