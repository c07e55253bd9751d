"""Slows down who guesses: a source with some failed logins has to wait.

A login counts from before its secret is checked, so that logins which are sent at once are not all checked."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable

from goworkers_py.core.values import dataclass
from goworkers_py.web.http.errors import Refused

MOST, WITHIN_S = 10, 60.0
MOST_SOURCES = 10_000
OF_A_SITE = 64  # bits of an IPv6 address: one customer has at least all addresses of such a network


@dataclass(slots=True)
class _Count:
    since: float  # when the first of the failed ones was begun
    failed: int = 0
    under_way: int = 0


class FailedLogins:
    """Threads share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_source: dict[str, _Count] = {}

    def begin(self, address: str) -> None:
        """Refuses the login of a source with too many failed ones. Otherwise `end` must follow."""
        source, now = source_of(address), self._clock()
        with self._lock:
            count = self._by_source.get(source) or self._new(source, now)
            if now - count.since > WITHIN_S:
                count.since, count.failed = now, 0
            if count.failed >= MOST:
                wait_s = count.since + WITHIN_S - now
                after = ("Retry-After", str(int(wait_s) + 1))
                raise Refused(429, f"too many failed logins from {source}: wait {wait_s:.0f} s", (after,))
            if count.failed + count.under_way >= MOST:
                raise busy()
            count.under_way += 1

    def end(self, address: str, failed: bool) -> None:
        source = source_of(address)
        with self._lock:
            count = self._by_source[source]
            count.under_way -= 1
            count.failed += failed
            if not count.failed and not count.under_way:
                del self._by_source[source]

    def _new(self, source: str, now: float) -> _Count:
        if len(self._by_source) >= MOST_SOURCES:
            for name, count in list(self._by_source.items()):
                if now - count.since > WITHIN_S and not count.under_way:
                    del self._by_source[name]
        # A count that is in force stays: else somebody with many addresses could have the count of each forgotten.
        if len(self._by_source) >= MOST_SOURCES:
            raise busy()
        count = self._by_source[source] = _Count(now)
        return count


def busy() -> Refused:
    return Refused(503, "too many logins at once: try again", (("Retry-After", "1"),))


def source_of(address: str) -> str:
    """Whose failed logins are counted together: an address, or an IPv6 network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, OF_A_SITE), strict=False))
