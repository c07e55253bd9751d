"""The manager of a queue in serial mode, whose jobs one thread fetches, runs and settles, see `SerialWorker`."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from goworkers_py.brokers.contracts.transport import Transport
from goworkers_py.core.clock import Deadline
from goworkers_py.runtime.fetching.hand_over import SerialHand
from goworkers_py.runtime.lane import Lane
from goworkers_py.runtime.manager import Manager
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.running.serial_worker import SerialWorker
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.settling.serial_settler import SerialSettler
from goworkers_py.runtime.shared import Shared

log = logging.getLogger(__name__)


class SerialManager(Manager):
    hand_of = SerialHand
    resizable = False

    def __init__(
        self,
        pool: Pool,
        lanes: Sequence[Lane],
        settler: SerialSettler,
        transport: Transport,
        shared: Shared,
    ) -> None:
        super().__init__(pool, lanes, settler, transport, shared)
        [worker] = self._workers
        self._serial = SerialWorker(worker, self.fetcher, pool.buffer, settler, shared.outage)

    @property
    def fetches(self) -> BrokerService:
        return self._serial

    def start(self) -> None:
        self._settler.start()
        self._serial.start()

    def replace(self, name: str) -> bool:
        """False: a second thread would run jobs beside the stuck one."""
        if any(worker.name == name for worker in self._workers):
            log.warning(
                "queue %s is in serial mode, so no other job runs here until the stuck one ends; with stuck_exit = 1 "
                "the process stops, and is started again", self.name
            )  # fmt: skip
        return False

    def revive(self) -> None:
        self._settler.revive()
        self._serial.revive()

    def stop_fetching(self) -> None:
        self._serial.stop()

    def give_back_unstarted(self, deadline: Deadline) -> None:
        self.give_back_waiting()

    def stop_workers(self) -> None:
        """Its thread ends after the job that it runs."""

    def join_workers(self, deadline: Deadline) -> None:
        if self._serial.join(deadline):
            self.fetcher.look_once_more()
            self.give_back_waiting()

    @property
    def workers_alive(self) -> int:
        return int(self._serial.alive)
