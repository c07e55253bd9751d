"""Tells the user's functions when the server is lost and when it is found again.

They are called one after the other, in a thread that lives only while there is something to tell. So a function that
takes long, or never returns, holds up neither the daemon nor its stop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError
from goworkers_py.core.strikes import lock_outside_runs
from goworkers_py.core.values import dataclass

log = logging.getLogger(__name__)

# How many events wait for a function that takes long; then the oldest are dropped.
MOST_EVENTS = 100


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """The server was lost (`lost`, with the `error`), or was found again after `lasted_s` seconds."""

    lost: bool
    broker: str  # the server's name, for people
    error: BrokerError | None = None
    lasted_s: float = 0.0


HealthHandler = Callable[[HealthEvent], None]


class HealthHandlers:
    """Called by any thread."""

    def __init__(self, handlers: Sequence[HealthHandler] = ()) -> None:
        self._handlers = handlers
        self._lock = lock_outside_runs()
        # Both under the lock.
        self._events: deque[HealthEvent] = deque(maxlen=MOST_EVENTS)
        self._telling = False

    def tell(self, event: HealthEvent) -> None:
        if not self._handlers:
            return
        with self._lock:
            self._events.append(event)
            if self._telling:
                return
            self._telling = True
        try:
            machine.Thread(target=self._tell_all, name="on-health", daemon=True).start()
        except RuntimeError:  # the system gives this process no more threads; the next event tries again
            log.exception("on_health cannot be called now")
            with self._lock:
                self._telling = False

    def _next(self) -> HealthEvent | None:
        with self._lock:
            if self._events:
                return self._events.popleft()
            self._telling = False
            return None

    def _tell_all(self) -> None:
        while (event := self._next()) is not None:
            for handler in self._handlers:
                try:
                    handler(event)
                except BaseException:  # also SystemExit: the other handlers are told all the same
                    log.exception("on_health handler %r failed", handler)
