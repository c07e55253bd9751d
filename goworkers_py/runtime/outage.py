"""An outage of the broker, as one process sees it: one error line when it begins, one line when it ends.

Many threads meet the same outage; each asks here how long to back off. A broker that serves, but refuses the request of
one thread (a key of the wrong type, a missing permission), is no outage: that thread logs a pair of lines of its own.
"""

from __future__ import annotations

import logging

from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, BrokerUnavailable, BrokerUnreachable, Fenced
from goworkers_py.core.strikes import lock_outside_runs
from goworkers_py.runtime.alive.health_handlers import HealthEvent, HealthHandlers

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
# This pause and the longest time for which a lost connection goes unnoticed are together below 10 s.
LONGEST_PAUSE_S = 3.0


class Outage:
    def __init__(
        self, broker: str, handlers: HealthHandlers | None = None, place: tuple[str, str] | None = None
    ) -> None:
        """`broker` is the name of the broker, for people. `handlers` are told of its outages. `place`: its address, and
        what sets the address: for advice while the broker has never served this process."""
        self._broker = broker
        self._place = place
        self._handlers = handlers or HealthHandlers()
        self._lock = lock_outside_runs()
        # By who fails: how often in a row. Each `who` is in at most one of the two.
        self._cut_off: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._logged = False  # an outage lasts, and its error line was logged
        self._began = 0.0
        self._ended = 0.0  # monotonic: when the last outage ended
        self._lasted_s = 0.0  # the sum of all outages that have ended

    def failed(self, who: str, error: BrokerError) -> float:
        """Counts a failure of `who`; returns the seconds to wait before the next try."""
        if isinstance(error, Fenced):  # this process leads no more: its threads are stopped in a moment
            return LONGEST_PAUSE_S
        outage = isinstance(error, BrokerUnavailable)
        with self._lock:
            book, other = (self._cut_off, self._refused) if outage else (self._refused, self._cut_off)
            # An exchange that began before the end of the last outage, and times out now, belongs to that outage.
            begins = not self._logged and error.began >= self._ended if outage else who not in book
            book[who] = failures = book.get(who, 0) + other.pop(who, 0) + 1
            if begins and outage:
                self._logged = True
                self._began = machine.monotonic()
                self._handlers.tell(HealthEvent(True, self._broker, error))  # under the lock, so in order
        if begins:
            if outage:
                place = self._place
                advised = error.with_advice(*place) if place and isinstance(error, BrokerUnreachable) else error
                log.error("%s cannot serve: %s; trying again until it does", self._broker, advised)
            else:
                log.error("%s: %s refuses: %s; trying again", who, self._broker, error)
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
        return machine.random.uniform(longest / 2, longest)

    def recovered(self, who: str) -> None:
        self._place = None  # the address is right: the broker has served
        if self._cut_off or self._refused:  # read without the lock: called for every fetch
            self._end(who, tell=True)

    def forget(self, who: str) -> None:
        """`who` has stopped and will not try again."""
        self._end(who, tell=False)

    def _end(self, who: str, tell: bool) -> None:
        with self._lock:
            ends = self._cut_off.pop(who, None) is not None and not self._cut_off and self._logged
            if ends:
                self._logged = False
                self._ended = machine.monotonic()
                self._lasted_s += self._ended - self._began
                if tell:
                    self._handlers.tell(HealthEvent(False, self._broker, None, self._ended - self._began))
            granted = self._refused.pop(who, None) is not None
        if ends and tell:
            log.warning("%s serves again after %.1f s", self._broker, self._ended - self._began)
        if granted and tell:
            log.warning("%s: %s no longer refuses", who, self._broker)

    @property
    def total_s(self) -> float:
        with self._lock:
            return self._lasted_s + (machine.monotonic() - self._began if self._logged else 0.0)

    @property
    def lasts(self) -> bool:
        return bool(self._cut_off)
