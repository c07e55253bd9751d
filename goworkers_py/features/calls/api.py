"""The reports with which a running program tells people something."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

from goworkers_py.brokers.broker import Broker
from goworkers_py.core import machine
from goworkers_py.core.errors import ArgumentError, BrokerError
from goworkers_py.core.strikes import Lock
from goworkers_py.features.calls.contract import Calls
from goworkers_py.features.calls.record import json_text

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
        self._warned = False

    def admits(self) -> bool:
        with self._lock:
            now = self._clock()
            self._left, self._at = min(AT_ONCE, self._left + (now - self._at) * PER_SECOND), now
            if self._left >= 1:
                self._left -= 1
                return True
            first, self._warned = not self._warned, True
        if first:
            log.warning("reports are dropped: a process may give %.0f a second; report less often", PER_SECOND)
        return False


class Reports:
    """See `App.report`. Any thread uses it."""

    def __init__(self, broker: Callable[[], Broker], identity: Callable[[], str]) -> None:
        """`identity` returns that of this process in the fleet; empty: it is no process of the fleet."""
        self._broker = broker
        self._identity = identity
        self._rate = ReportRate()

    def report(self, name: str, body: Mapping[str, Any]) -> bool:
        if not name or len(name) > LONGEST_NAME or not isinstance(body, Mapping):
            raise ArgumentError(f"a report has a name of at most {LONGEST_NAME} characters and a dict: {name!r}")
        text = json_text(dict(body), f"the report {name}", LONGEST_BODY)
        broker = self._broker()
        calls = broker.require_part(Calls)
        if not self._rate.admits():
            return False
        try:
            calls.report(name, self._identity() or f"{socket.gethostname()}:{os.getpid()}", text)
        except BrokerError as error:
            log.debug("report %s was dropped: %s", name, error)
            return False
        return True
