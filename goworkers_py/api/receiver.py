"""Receives the messages of one channel in the background of any program."""

from __future__ import annotations

import threading
from types import TracebackType

from goworkers_py.runtime.launcher import Launcher


class Receiver:
    """What `workers.receive` returns: a whole worker process inside of the program, with a lease and threads of its
    own. `with workers.receive(Mail): ...` stops it at the end of the block."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._lock = threading.Lock()
        self._stopped: bool | None = None  # used under the lock: what `stop` has returned
        launcher.start(threading.Event())

    @property
    def running(self) -> int:
        """How many messages are being resolved now."""
        return len(self._launcher.health.running)

    def stop(self, timeout: float | None = None) -> bool:
        """Fetches nothing more, and waits for the messages that are being resolved: `receiver.stop(10)`. Those that
        have not ended after `timeout` seconds go back into their queue; without a timeout it waits for all. Returns
        whether nothing was left behind. A second call waits for the first, and returns the same."""
        with self._lock:
            if self._stopped is None:
                self._stopped = self._launcher.stop(patiently=timeout is None, within_s=timeout)
            return self._stopped

    def __enter__(self) -> Receiver:  # noqa: PYI034  # typing.Self is newer than the oldest Python
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
