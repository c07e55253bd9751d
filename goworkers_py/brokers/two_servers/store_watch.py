"""Ends the wait of a fetcher at the queue service when a job comes in the store.

The fetcher's thread can wait at one of the two servers only. It waits at the queue service, and this thread polls the
waits that the store has left running, see `Pollable`.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence

from goworkers_py.brokers.bell import Bell
from goworkers_py.core import machine

ENDS_S = 2.0


class StoreWatch:
    """One for each pool of queues. The fetcher's thread calls `watch`; any thread may call `close`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` ends the wait at the queue service, the one that goes on or the next one."""
        self._wake = wake
        self._numbers: Sequence[int] = ()  # of the store's waits. Each thread sets and reads it in one step
        self._bell = Bell()
        self._closed = False
        self._thread: machine.Thread | None = None  # set by the fetcher's thread

    def watch(self, numbers: Sequence[int]) -> None:
        """Calls `wake` once, when one of these file numbers can be read. Ends the watch before."""
        self._numbers = numbers
        if self._thread is None or not self._thread.is_alive():
            self._thread = machine.Thread(target=self._run, name="store watch", daemon=True)
            self._thread.start()
        self._bell.ring()

    def _run(self) -> None:
        while not self._closed:
            numbers = self._numbers
            poll = select.poll()
            for number in (self._bell.fileno(), *numbers):
                poll.register(number, select.POLLIN)
            ready = [number for number, _ in poll.poll()]
            if self._bell.fileno() in ready:
                self._bell.silence()
            else:
                if self._numbers is numbers:  # else the fetcher has begun another wait
                    self._numbers = ()
                self._wake()

    def close(self) -> None:
        self._closed = True
        self._bell.ring()
        if self._thread is not None:
            self._thread.join(ENDS_S)
        self._bell.close()
