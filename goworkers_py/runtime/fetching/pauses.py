"""The pauses thread: asks the broker which queues are paused, one small question for all queues, twice a second.

While the broker cannot be asked, its last answer holds. People may also pause a queue for this process alone.

Where one of several servers is away and the others serve, this thread tells that outage, see `Transport.check`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from goworkers_py.brokers.contracts.transport import Transport
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerRefused
from goworkers_py.core.levels import is_paused
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.service import BrokerService

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
# Who meets the outage of one of several servers, for `Outage`: the thread itself goes on.
ONE_SERVER = "one server"

Switch = Callable[[bool], None]  # called with True when its queue is paused, with False when it is resumed


class Pauses(BrokerService):
    def __init__(self, transport: Transport, switches: Mapping[str, Switch], outage: Outage) -> None:
        super().__init__("pauses", outage)
        self._transport = transport
        self._switches = switches
        self._paused: set[str] = set()  # the paused ones of this process's queues; changed by `look` alone
        self._of_broker: Collection[str] = ()  # the paused queues, as the broker says; changed by `look` alone
        # Paused for this process alone. Added and removed by the thread `commands`; each change is one step of C code.
        self._here: set[str] = set()
        self._warned = False
        self._woken = machine.Event()

    def run_once(self) -> float:
        self.look()
        self._check()
        return LOOK_EVERY_S

    def _check(self) -> None:
        try:
            self._transport.check()
        except BrokerError as error:
            self._outage.failed(ONE_SERVER, error)
        else:
            self._outage.recovered(ONE_SERVER)

    def run(self) -> None:
        super().run()
        self._outage.forget(ONE_SERVER)

    def look(self) -> None:
        try:
            self._of_broker = self._transport.paused()
        except BrokerRefused as error:
            self._warn(error)
        finally:  # also in an outage: a pause of this process needs no broker
            self._switch({*self._of_broker, *self._here.copy()})

    def pause_here(self, queue: str) -> bool:
        """False if it was paused here already."""
        if queue in self._here:
            return False
        self._here.add(queue)
        self._woken.set()
        return True

    def resume_here(self, queue: str) -> bool:
        if queue not in self._here:
            return False
        self._here.discard(queue)
        self._woken.set()
        return True

    def wait_between(self, seconds: float) -> None:
        self._woken.wait(seconds)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def _switch(self, names: Collection[str]) -> None:
        paused = {queue for queue in self._switches if is_paused(queue, names)} if names else set()
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
