"""The pauses thread: asks the broker which queues are paused, one small question for all queues, twice a second.

While the broker cannot be asked, its last answer holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from goworkers_py.brokers.contracts.transport import Transport
from goworkers_py.core.errors import BrokerRefused
from goworkers_py.core.levels import is_paused
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5

Switch = Callable[[bool], None]  # called with True when its queue is paused, with False when it is resumed


class Pauses(BrokerService):
    def __init__(self, transport: Transport, switches: Mapping[str, Switch], outage: Outage) -> None:
        super().__init__("pauses", outage)
        self._transport = transport
        self._switches = switches
        self._paused: set[str] = set()  # the paused ones of this process's queues; changed by `look` alone
        self._warned = False

    def run_once(self) -> float:
        self.look()
        return LOOK_EVERY_S

    def look(self) -> None:
        try:
            told = self._transport.paused()
        except BrokerRefused as error:
            self._warn(error)
            return
        paused = {queue for queue in self._switches if is_paused(queue, told)} if told else set()
        for queue in sorted(paused ^ self._paused):
            self._switches[queue](queue in paused)
            log.warning("queue %s: %s", queue, "paused" if queue in paused else "resumed")
        self._paused = paused

    def _warn(self, error: BrokerRefused) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "cannot read which queues are paused: %s; each queue stays as it was until the broker allows it", error
            )
