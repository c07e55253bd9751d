"""What the live workers know, for a producer whose job needs something of them, see `wire.needs`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from goworkers_py.brokers.contracts import WorkerEntry
from goworkers_py.core.errors import ArgumentError, BrokerRefused

log = logging.getLogger(__name__)

# How long a producer trusts the last look at the workers.
LOOK_EVERY_S = 5.0
MOST_REMEMBERED = 100


class WorkerCheck:
    """Safe to share between threads: two that look at the same time look twice."""

    def __init__(self, ask: Callable[[], Sequence[WorkerEntry]]) -> None:
        self._ask = ask
        self._seen: tuple[float, Sequence[WorkerEntry]] = (0.0, ())  # until when, on the monotonic clock
        self._warned_of: set[str] = set()
        self._lock = threading.Lock()

    def check(self, queue: str, needs: Collection[str]) -> None:
        """Raises ArgumentError when no live worker of the queue speaks them all; warns once while some do not."""
        try:
            workers = [worker for worker in self._look() if queue in worker.queues]
        except BrokerRefused as error:
            self._warn("", f"cannot see whether the workers know {_list(needs)}: {error}; pushed all the same")
            return
        lacking = [worker for worker in workers if not set(needs) <= set(worker.speaks)]
        if not workers:
            self._warn(queue, f"nobody works queue {queue} now; a job there needs workers that know {_list(needs)}")
        elif len(lacking) == len(workers):
            raise ArgumentError(
                f"no live worker of queue {queue} knows {_list(needs)}: {_list(map(str, lacking))}; "
                "upgrade the workers first"
            )
        elif lacking:
            self._warn(
                queue,
                f"some workers of queue {queue} do not know {_list(needs)}: {_list(map(str, lacking))}; "
                "those of 0.2.0 and later leave such jobs to others, an older one runs them without it",
            )

    def _look(self) -> Sequence[WorkerEntry]:
        until, seen = self._seen
        if time.monotonic() >= until:
            seen = self._ask()
            self._seen = (time.monotonic() + LOOK_EVERY_S, seen)
        return seen

    def _warn(self, about: str, text: str) -> None:
        with self._lock:
            if about in self._warned_of or len(self._warned_of) >= MOST_REMEMBERED:
                return
            self._warned_of.add(about)
        log.warning("%s", text)


def _list(words: Any) -> str:
    words = sorted(words)
    return ", ".join(words[:5]) + (f" and {len(words) - 5} more" if len(words) > 5 else "")
