"""Whether the queue service serves.

The service is away from the first verb on that it fails. From then on no fetcher asks it: one that hangs would hold up
the jobs of the store. The thread of the probe alone asks it, until it answers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from goworkers_py.brokers.contracts.transport import Transport
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerUnavailable

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 3.0
# An outage that begins so soon after the last one is the same one: the end is told when none has begun for so long.
# RabbitMQ may answer the probe, and let nobody else connect: to find that takes less than this time.
SAME_OUTAGE_S = 15.0
ENDS_S = 2.0


class ServiceProbe:
    """Any thread asks it, in a process that consumes. It has a thread from the first `check` or failure on."""

    def __init__(self, name: str, service: Transport, on_return: Callable[[], None]) -> None:
        """`name` is that of the service, for people. The probe's thread calls `on_return` when it serves again."""
        self._name, self._service, self._on_return = name, service, on_return
        self.away: BrokerError | None = None  # why; None while it serves
        self._last: BrokerError | None = None  # the last failure, until it was told and is over
        self._over_at = -math.inf  # monotonic: until then, an outage that has ended is told as one that lasts
        self._begun = machine.Lock()  # taken for good by the thread that starts the probe's
        self._thread: machine.Thread | None = None
        self._failed, self._closed = machine.Event(), machine.Event()

    def failed(self, error: BrokerError) -> None:
        self._last = self.away = error
        self._start()
        self._failed.set()

    def check(self) -> None:
        """As `Transport.check`."""
        self._start()
        last = self._last
        if self.away is None and machine.monotonic() >= self._over_at:
            self._last = None
        if last is not None:
            raise self.named(last)

    def named(self, error: BrokerError) -> BrokerError:
        """To raise: it says which server has failed, and has a traceback of its own."""
        return type(error)(f"{self._name}: {error}")

    def _start(self) -> None:
        if self._thread is None and self._begun.acquire(blocking=False):
            self._thread = machine.Thread(target=self._run, name="queue service probe", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        failures, returned_at = 0, -math.inf
        while not self._closed.is_set():
            if self.away is None:
                self._failed.wait(LOOK_EVERY_S)
            self._failed.clear()
            if self.away is not None:
                # Also before the first look: who failed must not try again at once where `paused` does not fail.
                failures += 1
                longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
                self._closed.wait(machine.random.uniform(longest / 2, longest))
            was_away = self.away is not None
            try:
                self._service.paused()
            except BrokerError as error:
                self._last = self.away = error
                continue
            except Exception as error:  # no more threads, say
                log.exception("the queue service cannot be asked")
                self._last = self.away = BrokerUnavailable(f"{type(error).__name__}: {error}")
                continue
            now = machine.monotonic()
            if was_away:
                self._over_at = now + SAME_OUTAGE_S if now - returned_at < SAME_OUTAGE_S else now
                self.away, returned_at = None, now
                self._on_return()
            elif now - returned_at >= SAME_OUTAGE_S:
                failures = 0

    def close(self) -> None:
        self._closed.set()
        self._failed.set()
        if self._thread is not None:
            self._thread.join(ENDS_S)
