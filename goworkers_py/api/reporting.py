"""The method of an App that tells people something from a running program."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.brokers.broker import Broker, Capability
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError, BrokerError
from goworkers_py.core.strikes import Lock
from goworkers_py.runtime.daemon import Daemon
from goworkers_py.wire.call_record import json_text

log = logging.getLogger(__name__)

LONGEST_BODY, LONGEST_NAME = 4_096, 100
# Of one process: so many a second, and so many at once.
PER_SECOND, AT_ONCE = 20.0, 100.0


class ReportRate:
    """Any thread uses it."""

    def __init__(self, clock: Callable[[], float] = lambda: machine.monotonic()) -> None:
        self._clock = clock
        self._lock = Lock()
        self._left, self._at = AT_ONCE, clock()
        self._told = False

    def admits(self) -> bool:
        with self._lock:
            now = self._clock()
            self._left, self._at = min(AT_ONCE, self._left + (now - self._at) * PER_SECOND), now
            if self._left >= 1:
                self._left -= 1
                return True
            first, self._told = not self._told, True
        if first:
            log.warning("reports are dropped: a process may give %.0f a second; report less often", PER_SECOND)
        return False


class Reporting:
    _daemon_built: Daemon | None
    _report_rate: ReportRate

    @property
    def broker(self) -> Broker:
        raise NotImplementedError

    def report(self, name: str, body: Mapping[str, Any]) -> bool:
        """`workers.report("import", {"rows": 4000})` tells people something: `pyworkers reports --follow` shows it.

        The body is a JSON object of at most 4,096 bytes. Returns False when the report was dropped: this process gives
        more than 20 a second, or the broker cannot take it now. The broker keeps the last 5,000 reports of the fleet.
        """
        if not name or len(name) > LONGEST_NAME or not isinstance(body, Mapping):
            raise ArgumentError(f"a report has a name of at most {LONGEST_NAME} characters and a dict: {name!r}")
        text = json_text(dict(body), f"the report {name}", LONGEST_BODY)
        self.broker.require(Capability.CALLS)
        if not self._report_rate.admits():
            return False
        try:
            self.broker.calls.report(name, self._identity(), text)
        except BrokerError as error:
            log.debug("report %s was dropped: %s", name, error)
            return False
        return True

    def _identity(self) -> str:
        """Of this process in the fleet, or else the machine and the pid."""
        daemon = self._daemon_built
        return daemon.main.identity if daemon is not None else f"{socket.gethostname()}:{os.getpid()}"
