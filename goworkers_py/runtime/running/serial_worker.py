"""The thread of a queue in serial mode: fetches some jobs, runs one after the other, and settles them.

No other thread takes part in that, so there is no hand-over between threads, for which the interpreter would switch
between them, and no lock is taken for a job.
"""

from __future__ import annotations

from goworkers_py.runtime.fetching.buffer import Buffer
from goworkers_py.runtime.fetching.fetcher import Fetcher
from goworkers_py.runtime.outage import Outage
from goworkers_py.runtime.running.worker import Worker
from goworkers_py.runtime.service import BrokerService
from goworkers_py.runtime.settling.serial_settler import SerialSettler


class SerialWorker(BrokerService):
    """Uses a fetcher and a worker that have no threads of their own, the worker with a SerialHand. It has the worker's
    name, under which the watchdog knows the thread."""

    def __init__(
        self, worker: Worker, fetcher: Fetcher, buffer: Buffer, settler: SerialSettler, outage: Outage
    ) -> None:
        super().__init__(worker.name, outage)
        self._worker = worker
        self._fetcher = fetcher
        self._buffer = buffer
        self._settler = settler
        self._fetching = False

    def run(self) -> None:
        self._worker.enter_pool()
        try:
            self._work()  # an exception from outside may have broken off the loop below, and `run` was called again
            super().run()
        finally:
            self._worker.close_loop()

    def run_once(self) -> float:
        self._fetching = True
        try:
            pause_s = self._fetcher.run_once()
        finally:
            self._fetching = False
        self._work()  # also when what was fetched is on its way back by now
        return pause_s

    def _work(self) -> None:
        if self.stopping.is_set():
            # Fetched while the stop began: the thread that stops has looked at the buffer before, perhaps.
            self._settler.give_back_waiting()
        if len(self._buffer) > 1:
            self._settler.watch()
        self._worker.work()
        self._settler.settle_all(self.stopping.is_set)

    def after_failure(self) -> None:
        self._fetcher.after_failure()

    def wait_between(self, seconds: float) -> None:
        self._fetcher.wait_between(seconds)

    @property
    def still_s(self) -> float:
        """Of a fetch alone: a job may run for as long as it likes, and an outage keeps a batch from being settled."""
        return super().still_s if self._fetching else 0.0

    def wake(self) -> None:
        self._fetcher.stop()
