"""The contract of every thread of the daemon."""

from __future__ import annotations

import logging
import math

from goworkers_py.core import machine
from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import BrokerError
from goworkers_py.runtime.outage import Outage

log = logging.getLogger(__name__)


class Service:
    """One named thread. `stop` may come before `start`, twice and from any thread; `join` has a deadline.

    A subclass does its work in `run`, which returns soon after `stopping` is set. If `run` waits for anything else than
    `stopping`, the subclass ends that wait in `wake`.
    """

    pause_after_fault_s = 1.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = machine.Event()
        self._thread: machine.Thread | None = None
        self._ended = False  # `run` has returned; set by the service's own thread

    def name_partition(self, partition: str) -> None:
        """Adds the partition to the name: a process has such a thread for each of its partitions. Called before
        `start`."""
        self.name += f"@{partition}"

    def start(self) -> None:
        # A daemon thread: a job that never ends must not keep the process from ending.
        thread = machine.Thread(target=self._main, name=self.name, daemon=True)
        try:
            thread.start()
        finally:
            # Not assigned before `thread.start()`: a thread that has not started is not alive, and `revive` (in the
            # watchdog's thread) would start a second one. Assigned also when `thread.start()` fails because the machine
            # has no room for another thread now: then `revive` starts a new one later.
            self._thread = thread

    def stop(self) -> None:
        self.stopping.set()
        self.wake()

    def wake(self) -> None:
        """Ends the wait that `run` may be in. `join` calls it again and again until the thread has ended."""

    def join(self, deadline: Deadline) -> bool:
        """True when the thread has ended, or never began."""
        if self._thread is None:
            return True
        while self._thread.is_alive() and deadline.left() > 0:
            if self.stopping.is_set():
                # `stop` may have called `wake` just before the service's thread began to wait.
                self.wake()
            self._thread.join(min(0.05, deadline.left()))
        return not self._thread.is_alive()

    def revive(self) -> bool:
        """Starts a new thread if the old one died. True when it started one."""
        if self._thread is None or self._thread.is_alive() or self._ended or self.stopping.is_set():
            return False
        log.critical("thread %s died; starting a replacement", self.name)
        self.start()
        return True

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def runs_here(self) -> bool:
        """The calling thread is that of this service."""
        return self._thread is machine.current_thread()

    def run(self) -> None:
        raise NotImplementedError

    def _main(self) -> None:
        # `run` raises because of a fault in the daemon's code, or of an exception thrown into this thread from outside.
        # `run` is called again in both cases: a pool that lost a thread unnoticed would be worse. An exception that
        # strikes here, outside of the `try`, ends the thread; then the watchdog's thread calls `revive`.
        faults_while_stopping = 0
        while not self._ended:
            try:
                self.run()
                self._ended = True
            except BaseException:
                log.critical("thread %s failed; starting it again", self.name, exc_info=True)
                # No Event: another exception in its `wait` could leave its lock locked.
                machine.sleep(self.pause_after_fault_s)
                faults_while_stopping += self.stopping.is_set()
                if faults_while_stopping > 1:  # one more run may bring to its end what the stop waits for
                    return


class BrokerService(Service):
    """Calls `run_once` in a loop, and pauses for as long as it returned. An outage does not end the loop."""

    def __init__(self, name: str, outage: Outage) -> None:
        super().__init__(name)
        self._outage = outage
        self._step_began_at = math.inf  # monotonic

    def begin(self) -> None:
        """By the thread that starts the process, before the fleet sees that, and again after an outage. BrokerRefused
        does not keep the process from starting."""

    def run(self) -> None:
        while not self.stopping.is_set():
            self._step_began_at = machine.monotonic()
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
        """Seconds since the loop last began a step; 0 before its first step and after `stop`."""
        return 0.0 if self.stopping.is_set() else max(0.0, machine.monotonic() - self._step_began_at)

    def after_failure(self) -> None:
        """Called when `run_once` raised BrokerError: a subclass notes here what to check in its next step."""

    def wait_between(self, seconds: float) -> None:
        if seconds > 0:
            self.stopping.wait(seconds)
