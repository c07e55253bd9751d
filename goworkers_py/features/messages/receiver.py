"""Receives the messages of one channel in the background of any program."""

from __future__ import annotations

import logging
import math
from types import TracebackType
from typing import TYPE_CHECKING

from goworkers_py.core import machine
from goworkers_py.core.clock import Deadline
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.strikes import Lock
from goworkers_py.runtime.service import Service

if TYPE_CHECKING:
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.runtime.launcher import Launcher

log = logging.getLogger(__name__)

LOOK_S = 0.02  # how often `receive` looks whether the start waits for its broker
AGAIN_S = 30.0  # after a broker that was away has come back and refuses


class Receiver:
    """The value of `workers.receive`: a whole worker process inside of the program, with a lease and threads of its
    own. `with workers.receive(Mail): ...` stops it at the end of the block."""

    def __init__(self, launcher: Launcher, broker: Broker) -> None:
        """`broker` is that of the launcher. Returns when the launcher works, or waits for its broker. Raises the error
        of a start that fails before."""
        self._launcher = launcher
        self._broker = broker
        self._lock = Lock()
        self._stopped: bool | None = None  # used under the lock: what `stop` has returned
        self._starter = Starter(launcher)
        self._starter.start()
        try:
            self._starter.await_work_or_outage()
        except BaseException:  # also Ctrl-C
            self.stop(0)
            raise

    @property
    def running(self) -> int:
        """How many messages are being resolved now."""
        return len(self._launcher.health.running)

    @property
    def ready(self) -> bool:
        """It receives messages. False while it waits for a broker that was away at its start, and from `stop` on. It
        stays true in an outage that begins later."""
        return self._starter.works and not self._starter.stopping.is_set()

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """`receiver.wait_until_ready(30)` waits for a broker that is away, and returns `ready`. Raises the error of a
        start that fails when the broker is back."""
        self._starter.ended.wait(timeout)
        if self._starter.error is not None:
            raise self._starter.error
        return self.ready

    def stop(self, timeout: float | None = None) -> bool:
        """Fetches nothing more, and waits for the messages that are being resolved: `receiver.stop(10)`. Those that
        have not ended after `timeout` seconds go back into their queue; without a timeout it waits for all. Returns
        whether nothing was left behind. A second call waits for the first, and returns the same."""
        self._starter.stop()
        with self._lock:
            if self._stopped is None:
                self._starter.join(Deadline(math.inf))  # it ends with its exchange with the broker, or its hook
                if self._starter.works:
                    self._stopped = self._launcher.stop(patiently=timeout is None, within_s=timeout)
                else:
                    self._broker.close()
                    self._stopped = True
            return self._stopped

    def __enter__(self) -> Receiver:  # noqa: PYI034  # typing.Self is newer than the oldest Python
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Starter(Service):
    """Starts the launcher when its broker serves. Its thread ends then, when the start fails, or when it is stopped.

    The first two are assigned by this thread, before it sets `ended`."""

    def __init__(self, launcher: Launcher) -> None:
        super().__init__(f"receiver:{launcher.plan.pools[0].name}")
        self.works = False
        self.error: BaseException | None = None
        self.ended = machine.Event()
        self._launcher = launcher
        self._alone = False  # assigned by the caller: it has returned, and nobody waits for an error any more

    def await_work_or_outage(self) -> None:
        while not self.ended.wait(LOOK_S) and not self._launcher.waits_for_broker:
            pass
        self._alone = True  # before the look at `error`: an error after this is logged by the thread
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        try:
            while not self.stopping.is_set() and not self._start():
                self.stopping.wait(AGAIN_S)
        finally:
            self.ended.set()

    def _start(self) -> bool:
        """False when the broker refused, and another try may succeed."""
        try:
            self.error = None
            self.works = self._launcher.start(self.stopping)
            if self.works and self._alone:
                log.info("ready after an outage: %s", self._launcher)
        except BaseException as error:
            self.error = error  # before the look at `_alone`
            if not self._alone:
                return True
            if isinstance(error, BrokerError) and not self._launcher.state.failed:
                log.error("%s cannot start, next try in %.0f s: %s", self.name, AGAIN_S, error)
                return False
            log.exception("%s cannot start; it receives no messages", self.name)
        return True
