"""The contract of every thread of the daemon."""

from __future__ import annotations

import logging
import math
import threading
import time

from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import BrokerError
from goworkers_py.runtime.outage import Outage

log = logging.getLogger(__name__)

PAUSE_AFTER_FAULT_S = 1.0


class Service:
    """One named thread. `stop` may come before `start`, twice and from any thread; `join` has a deadline.

    A subclass does its work in `run`, which ends soon after `stopping` is set; what must be woken, it wakes in `wake`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._ended = False  # `run` came to its end

    def start(self) -> None:
        # A daemon thread: a job that never ends must not keep the process from ending.
        thread = threading.Thread(target=self._main, name=self.name, daemon=True)
        try:
            thread.start()
        finally:
            # Not before: the watchdog would take a thread that has yet to begin for a dead one. But also when the
            # machine has no room for another thread now: then it is one, and the watchdog tries again.
            self._thread = thread

    def stop(self) -> None:
        self.stopping.set()
        self.wake()

    def wake(self) -> None:
        """Ends the wait that `run` may be in. Called again and again until the thread has ended."""

    def join(self, deadline: Deadline) -> bool:
        """True when the thread has ended, or never began."""
        if self._thread is None:
            return True
        while self._thread.is_alive() and deadline.left() > 0:
            if self.stopping.is_set():
                # A thread that was just about to wait when `stop` woke it is waiting now.
                self.wake()
            self._thread.join(min(0.05, deadline.left()))
        return not self._thread.is_alive()

    def revive(self) -> bool:
        """A new thread in the place of one that died; True when that was needed."""
        if self._thread is None or self._thread.is_alive() or self._ended or self.stopping.is_set():
            return False
        log.critical("thread %s died; another takes its place", self.name)
        self.start()
        return True

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def run(self) -> None:
        raise NotImplementedError

    def _main(self) -> None:
        # What ends `run` by an exception is a fault of ours, or something thrown into this thread from outside. The
        # role goes on: a pool that has lost a thread unnoticed is worse than either. What strikes just here ends the
        # thread, see `revive`.
        while not self._ended:
            try:
                self.run()
                self._ended = True
            except BaseException:
                log.critical("thread %s failed; it begins anew", self.name, exc_info=True)
                time.sleep(PAUSE_AFTER_FAULT_S)  # not on an Event, whose lock another such exception could leave locked
                if self.stopping.is_set():
                    return


class BrokerService(Service):
    """A loop over the server that outlives its outages: `run_once`, then the pause it asks for."""

    def __init__(self, name: str, outage: Outage) -> None:
        super().__init__(name)
        self._outage = outage
        self._came_round_at = math.inf  # monotonic

    def run(self) -> None:
        while not self.stopping.is_set():
            self._came_round_at = time.monotonic()
            try:
                pause_s = self.run_once()
            except BrokerError as error:
                pause_s = self._outage.failed(self.name, error)
                self.after_failure()
            else:
                self._outage.recovered(self.name)
            self.wait_between(pause_s)
        self._outage.forget(self.name)

    def run_once(self) -> float:
        """One step; returns how many seconds to pause before the next."""
        raise NotImplementedError

    @property
    def still_s(self) -> float:
        """For how long the loop has not come round; 0 before it began and once it is to end."""
        return 0.0 if self.stopping.is_set() else max(0.0, time.monotonic() - self._came_round_at)

    def after_failure(self) -> None:
        """What a failed exchange leaves to be checked."""

    def wait_between(self, seconds: float) -> None:
        if seconds > 0:
            self.stopping.wait(seconds)
