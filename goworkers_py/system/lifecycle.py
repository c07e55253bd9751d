"""The daemon's life from start to stop, in a thread of its own beside the main one, which waits for signals."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from goworkers_py.core.errors import WorkersError
from goworkers_py.runtime import forks
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.system.output import flush_printed

log = logging.getLogger(__name__)

# A terminal, `timeout` and shell wrappers send a signal to the process and to its group: twice, but meant once.
SAME_REQUEST_S = 0.5


class Lifecycle:
    def __init__(self, launcher: Launcher, ended: Callable[[], None]) -> None:
        self.thread = threading.Thread(target=self._live, name="launcher", daemon=True)
        self.when_ready: Callable[[], None] = lambda: None
        self._launcher = launcher
        self._ended = ended
        self._lock = threading.Lock()  # signals, the parent's line and the watchdog ask, each in a thread of its own
        self._stop_asked = threading.Event()
        self._patient = False
        self._asked_at = 0.0
        self._error: BaseException | None = None
        self._clean = True

    def ask_to_stop(self) -> None:
        with self._lock:
            self._ask_to_stop()

    def interrupt(self) -> None:
        """Somebody at a terminal, who may not know what a second Ctrl-C does."""
        with self._lock:
            if not self._stop_asked.is_set():
                log.info("stopping; a second Ctrl-C stops at once, and running jobs go back to their queues")
            self._ask_to_stop()

    def stop_without_hurry(self) -> None:
        """Who stops already goes on as it does, but without patience."""
        with self._lock:
            if self._patient or not self._stop_asked.is_set():
                self._ask_to_stop()

    def _ask_to_stop(self) -> None:
        if not self._stop_asked.is_set():
            self._asked_at = time.monotonic()
            self._stop_asked.set()
        elif self._patient:
            self._patient = False
            self._asked_at = time.monotonic()
            self._launcher.lose_patience()
        elif time.monotonic() - self._asked_at > SAME_REQUEST_S:
            log.warning("asked again: not waiting for running jobs")
            self._launcher.hurry()

    def retire(self) -> None:
        """To stop when the running jobs have ended, however long that takes: another process has taken its place."""
        with self._lock:
            if not self._stop_asked.is_set():
                self._patient = True
                self._stop_asked.set()

    def _live(self) -> None:
        try:
            if self._launcher.start(self._stop_asked):
                log.info("%s works; stop it with TERM or Ctrl-C", self._launcher)
                self.when_ready()
                self._stop_asked.wait()
                self._clean = self._launcher.stop(self._patient)
        except BaseException as error:
            self._error = error
        finally:
            self._ended()

    def exit_code(self) -> int:
        if isinstance(self._error, WorkersError):
            raise self._error
        if self._error is not None:
            log.critical("the daemon failed", exc_info=self._error)
        code = 0 if self._clean and self._error is None and not self._launcher.gave_up else 1
        log.info("stopped")
        if left := forks.children():
            log.info(
                "child processes are still there: %s; Python waits for those of multiprocessing", forks.listed(left)
            )
        if not flush_printed() or self._launcher.workers_alive:
            # Jobs that cannot be interrupted run on in their threads; the interpreter's own way out would wait for
            # what they hold. They were given back to their queues.
            forks.report_left()
            logging.shutdown()
            os._exit(code)
        return code
