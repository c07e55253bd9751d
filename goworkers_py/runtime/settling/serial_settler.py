"""The settler of a queue in serial mode: the thread that runs the jobs settles them itself, see `SerialWorker`.

The settler has a thread of its own all the same, which sleeps nearly always. It is for a job that runs for long while
others before it have ended, or others wait behind it. This thread settles the former and gives back the latter. It also
settles what other threads give back, and tries again what the broker has refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goworkers_py.core import machine
from goworkers_py.core.delivery import Delivery
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.service import Service
from goworkers_py.runtime.settling.settlement import Settlement
from goworkers_py.runtime.shared import Shared


class SerialSettler(Service):
    # How long a job may run until this thread settles those before it. They have mostly ended within a batch.
    late_s = 0.05

    def __init__(self, settlement: Settlement, pool: Pool, shared: Shared) -> None:
        super().__init__(settlement.name)
        self.settlement = settlement
        self._buffer = pool.buffer
        self._outage = shared.outage
        # Of the thread that settles now, which is one of two. Taken once for a batch of jobs. Both look at the
        # settlement without it too: at `has_ended` and `is_idle`.
        self._turn = machine.Lock()
        self._watching = machine.Event()  # set while there may be something for this thread to do

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """From any thread."""
        self.settlement.give_back(deliveries)
        if deliveries:
            self.wake()  # a job may run for long in the thread that settles

    # --- in the thread that runs the jobs

    def settle_all(self, hurried: Callable[[], bool]) -> None:
        """Settles what has ended. In an outage it does not return before that is settled, so that nothing overtakes
        it; when it is `hurried`, it leaves that to the settler's own thread."""
        settlement = self.settlement
        with self._turn:
            while settlement.has_ended:
                if settlement.collect(self.stopping) and not settlement.settle(self.stopping) and hurried():
                    break
        if not settlement.is_idle:
            self.wake()

    def watch(self) -> None:
        """Some jobs wait behind the next one."""
        if not self._watching.is_set():
            self._watching.set()

    def give_back_waiting(self) -> None:
        """Gives back the deliveries that no worker has taken yet."""
        self.settlement.give_back(self._buffer.take_back())

    # --- the settler's own thread

    def run(self) -> None:
        seen = None
        while not (self.settlement.given_up or (self.stopping.is_set() and self._is_idle())):
            self._watching.wait()
            self.stopping.wait(self.late_s)
            last_done = self._buffer.last_done
            if last_done is seen or self.stopping.is_set():  # one job runs all the time, or none
                self._settle_late()
            seen = last_done
            self._sleep_if_idle()
        self._outage.forget(self.name)

    def _settle_late(self) -> None:
        with self._turn:  # from here on: the next fetch waits for it, so no job overtakes one that goes back
            self.give_back_waiting()
            while self.settlement.has_ended:
                self._settle_some()
            self._settle_some()  # what was refused, if it is time to try that again

    def _settle_some(self) -> None:
        if self.settlement.collect(self.stopping):
            self.settlement.settle(self.stopping)

    def _sleep_if_idle(self) -> None:
        if self._is_idle() and not self.stopping.is_set():
            self._watching.clear()
            # Another thread may have put something between the look and `clear`, and its `wake` was in vain then.
            if not self._is_idle():
                self._watching.set()

    def _is_idle(self) -> bool:
        return self.settlement.is_idle and not len(self._buffer)

    def wake(self) -> None:
        self._watching.set()
