"""Few slow hashes at a time: each takes 16 MB and a tenth of a second of the machine on which jobs run.

They run in threads of their own: the allocator keeps the memory of a hash for the thread that made it, so that hashes
in the threads of requests take 16 MB for each of those."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitedTooLong  # another class before Python 3.11

from goworkers_py.web.site.failed_logins import busy

AT_ONCE, WAITING, LONGEST_WAIT_S = 2, 18, 5.0


class HashSlots:
    """Threads share it."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(AT_ONCE + WAITING)  # so that no more threads wait
        self._threads = ThreadPoolExecutor(AT_ONCE, "login")  # which start with the first hash

    def run(self, check: Callable[[str], bool], secret: str) -> bool:
        """Refuses when too many wait, or for too long."""
        if not self._places.acquire(blocking=False):
            raise busy()
        try:
            fits = self._threads.submit(check, secret)
            try:
                return fits.result(LONGEST_WAIT_S)
            except WaitedTooLong:
                fits.cancel()
                raise busy() from None
        finally:
            self._places.release()

    def close(self) -> None:
        self._threads.shutdown()
