"""The daemon's life from start to stop, in the launcher's thread. The main thread waits for signals meanwhile."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from goworkers_py.core.errors import WorkersError
from goworkers_py.runtime import forks
from goworkers_py.system.output import flush_printed

if TYPE_CHECKING:
    from goworkers_py.runtime.daemon import Daemon

log = logging.getLogger(__name__)

# A terminal, `timeout` and shell wrappers send one signal to the process and to its group, so it comes twice.
SAME_REQUEST_S = 0.5


class Lifecycle:
    def __init__(
        self,
        daemon: Daemon,
        when_ready: Callable[[], None],
        ended: Callable[[], None],
        same_request_s: float = SAME_REQUEST_S,
    ) -> None:
        self.thread = threading.Thread(target=self._live, name="launcher", daemon=True)
        self._daemon = daemon
        self._when_ready = when_ready
        self._ended = ended
        self._same_request_s = same_request_s
        self._stop_asked = threading.Event()
        # Changed by the main thread, which obeys all commands. The launcher's thread reads `_patient` after
        # `_stop_asked` was set.
        self._patient = False
        self._asked_at = 0.0
        self._error: BaseException | None = None
        self._clean = True

    def stop_or_hurry(self) -> None:
        if not self._stop_asked.is_set():
            self._asked_at = time.monotonic()
            self._stop_asked.set()
        elif self._patient:
            self._patient = False
            self._asked_at = time.monotonic()
            self._daemon.lose_patience()
        elif time.monotonic() - self._asked_at > self._same_request_s:
            log.warning("asked again to stop: not waiting for running jobs")
            self._daemon.hurry()

    def interrupt(self) -> None:
        """Ctrl-C: somebody at a terminal may not know what a second one does."""
        if not self._stop_asked.is_set():
            log.info("stopping; a second Ctrl-C stops at once, and running jobs go back to their queues")
        self.stop_or_hurry()

    def stop(self) -> None:
        """A stop that runs already goes on, with the usual time limit if it had none."""
        if self._patient or not self._stop_asked.is_set():
            self.stop_or_hurry()

    def retire(self) -> None:
        """Stops when the running jobs have ended, however long they take: a successor runs already."""
        if not self._stop_asked.is_set():
            self._patient = True
            self._stop_asked.set()

    def _live(self) -> None:
        try:
            if self._daemon.start(self._stop_asked):
                log.info("ready: %s; stop it with TERM or Ctrl-C", self._daemon)
                self._when_ready()
                self._stop_asked.wait()
                self._clean = self._daemon.stop(self._patient)
        except BaseException as error:
            self._error = error
        finally:
            self._ended()

    def exit_code(self) -> int:
        if isinstance(self._error, WorkersError):
            raise self._error
        if self._error is not None:
            log.critical("the daemon failed", exc_info=self._error)
        code = 0 if self._clean and self._error is None and not self._daemon.gave_up else 1
        log.info("stopped")
        if left := forks.children():
            log.info(
                "child processes are still there: %s; Python waits for those of multiprocessing", forks.listed(left)
            )
        if not flush_printed() or self._daemon.workers_alive:
            # Workers' threads still run jobs, which were requeued. The interpreter's own end would wait for what these
            # threads hold.
            forks.report_left()
            logging.shutdown()
            os._exit(code)
        return code
