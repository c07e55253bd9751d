"""The settler of a queue in serial mode: the thread that runs the jobs settles them itself, see `SerialWorker`.

The settler has a thread of its own all the same, which sleeps nearly always. It is for a job that runs for long while
others before it have ended, or others wait behind it. This thread settles the former and gives back the latter. It also
settles what other threads give back, and tries again what the broker has refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goworkers_py.brokers.contracts.transport import Transport
from goworkers_py.core import machine
from goworkers_py.core.effect import Effect
from goworkers_py.runtime.pool import Pool
from goworkers_py.runtime.settling.settler import Settler
from goworkers_py.runtime.shared import Shared


class SerialSettler(Settler):
    # How long a job may run until this thread settles those before it. They have mostly ended within a batch.
    late_s = 0.05

    def __init__(
        self,
        transport: Transport,
        pool: Pool,
        shared: Shared,
        on_later: Callable[[float], None],
        on_posted: Callable[[], None] = lambda: None,
        on_settled: Sequence[Callable[[Sequence[Effect]], None]] = (),
    ) -> None:
        super().__init__(transport, pool, shared, on_later, on_posted, on_settled)
        self.give_back_waiting: Callable[[], None] = lambda: None  # set by the manager, before the start
        # Of the thread that settles now: it alone uses the fields of Settler. Taken once for a batch of jobs.
        self._turn = machine.Lock()
        self._watching = machine.Event()  # set while there may be something for this thread to do

    # --- in the thread that runs the jobs

    def settle_all(self, hurried: Callable[[], bool]) -> None:
        """Settles what has ended. In an outage it does not return before that is settled, so that nothing overtakes
        it; when it is `hurried`, it leaves that to the settler's own thread."""
        with self._turn:
            while self._has_ended():
                self._settle_some()
                if self._batch and hurried():
                    break
        if self._batch or self._refused:
            self.wake()

    def watch(self) -> None:
        """Some jobs wait behind the next one."""
        if not self._watching.is_set():
            self._watching.set()

    # --- the settler's own thread

    def run(self) -> None:
        seen = None
        while not (self._gave_up or (self.stopping.is_set() and self._is_idle())):
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
            while self._has_ended():
                self._settle_some()
            if self._refused and (self.stopping.is_set() or machine.monotonic() >= self._refused_until):
                self._settle_some()

    def _sleep_if_idle(self) -> None:
        if self._is_idle() and not self.stopping.is_set():
            self._watching.clear()
            # Another thread may have put something between the look and `clear`, and its `wake` was in vain then.
            if not self._is_idle():
                self._watching.set()

    def _is_idle(self) -> bool:
        return not (self._has_ended() or self._refused or len(self._buffer))

    def wake(self) -> None:
        self._watching.set()

    # --- in both

    def _has_ended(self) -> bool:
        """Something is there to settle. Nothing is, once the stop has given up: the jobs are others'."""
        return not self._gave_up and (bool(self._batch or self._taken) or not self._outcomes.empty())

    def _settle_some(self) -> None:
        if not self._batch:
            self._collect()
        if self._batch:
            self._settle()

    def _linger(self) -> None:
        """A job that is about to end is run by the thread that settles."""

    def _let_fetcher_go_first(self) -> None:
        """The thread that settles fetches next."""
