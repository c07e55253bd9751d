"""Tells systemd the state of this process, by sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names.

    READY=1      it fetches jobs, or stands by; with `processes = N`, all N do; or it is quiet since before it did
    STOPPING=1   it drains
    STATUS=...   the text that `systemctl status` shows
    WATCHDOG=1   twice as often as WatchdogSec asks, while the loops of the heartbeat and of the fetchers make steps

Only the process that systemd started uses the socket. Its children must not, so the variables are removed from the
environment.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress

from goworkers_py.observe.health_report import QUIET, STANDBY, STOPPING, WORKING, HealthReport, in_words, not_live

VARIABLES = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]
STATUS_EVERY_S = 5.0


class SystemdNotifier:
    """Used by the main thread only."""

    def __init__(
        self, environment: MutableMapping[str, str] = os.environ, ready: Callable[[], None] = lambda: None
    ) -> None:
        self._ready = ready
        address, watchdog_us, watchdog_pid = (environment.pop(name, "") for name in VARIABLES)
        # A leading @ stands for the zero byte of an abstract socket.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._every_s = STATUS_EVERY_S
        if watchdog_us.isdecimal() and watchdog_pid in ("", str(os.getpid())):
            self._every_s = min(STATUS_EVERY_S, int(watchdog_us) / 2e6)
        self._state = ""
        self._milestone = ""  # the last one reached
        self._unsaid = ""  # a milestone that was not sent yet
        self._next_at = 0.0  # monotonic

    def follow(self, state: str, report: Callable[[], HealthReport]) -> None:
        """Called often. Sends a change of state at once, otherwise the status every few seconds."""
        now, before = time.monotonic(), self._state
        if state == before and now < self._next_at:
            return
        self._state, self._next_at = state, now + self._every_s
        milestone = _MILESTONES.get(state, self._milestone)
        if milestone != self._milestone:
            self._milestone = self._unsaid = milestone
            if milestone == _READY:
                self._ready()
        if self._address:
            health = report()
            lines = [f"STATUS={in_words(health)}"]
            if self._unsaid:
                lines.append(self._unsaid)
            if not not_live(health):
                lines.append("WATCHDOG=1")
            if self.say("\n".join(lines)):
                self._unsaid = ""

    def say(self, text: str) -> bool:
        """True when the text was sent."""
        if not self._address:
            return False
        # OSError: systemd does not read, or not fast enough. A later `say` tries again.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
            line.setblocking(False)
            line.sendto(text.encode(), self._address)
            return True
        return False


_READY = "READY=1"
_MILESTONES = {WORKING: _READY, STANDBY: _READY, QUIET: _READY, STOPPING: "STOPPING=1"}
