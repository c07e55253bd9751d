"""Few slow hashes at a time: each takes 16 MB and a tenth of a second of the machine on which jobs run.

They run in threads of their own: the allocator keeps the memory of a hash for the thread that made it, so that hashes
in the threads of requests take 16 MB for each of those."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitedTooLong  # another class before Python 3.11
from contextlib import suppress

from goworkers_py.web.site.failed_logins import busy

AT_ONCE, WAITING, LONGEST_WAIT_S = 2, 18, 5.0

# Once a block of 16 MB was freed, glibc keeps each smaller one for its thread too: the bodies of requests then took 100
# MB more. A threshold that is set stays as it is. A block that is larger goes back to the system.
M_MMAP_THRESHOLD, LARGEST_KEPT = -3, 1_000_000


class HashSlots:
    """Threads share it."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(AT_ONCE + WAITING)  # so that no more threads wait
        self._threads = ThreadPoolExecutor(AT_ONCE, "login", _keep_few)  # which start with the first hash

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


def _keep_few() -> None:
    with suppress(ImportError, OSError, AttributeError):  # another C library than glibc, or none to be called
        import ctypes

        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
