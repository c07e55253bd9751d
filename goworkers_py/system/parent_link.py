"""The child's end of the line to its parent, see `supervisor`."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from goworkers_py.admin.stats import Stats
from goworkers_py.core.errors import BrokerError, WorkersError, as_word
from goworkers_py.core.proc import resident_bytes
from goworkers_py.observe.health_report import SHAPE
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.system.lifecycle import Lifecycle
from goworkers_py.system.logs import reopen_log_files

log = logging.getLogger(__name__)

# In the environment of a child: the number of its end of the line.
LINE_VARIABLE = "PYWORKERS_LINE_TO_PARENT"
LOOK_EVERY_S, LOOK_AT_SERVER_EVERY_S = 1.0, 5.0

# What is said on the line, each with a line end.
READY, WORN_OUT, FIGURES, REPORT, STATS = b"ready", b"worn out", b"figures ", b"report ", b"stats "
FAILED, ENDED_WELL = b"failed ", b"ended well"
RETIRE, RECOVER, REOPEN = b"retire", b"recover", b"reopen"


Look = Callable[[], Stats]


@contextmanager
def _kept_alive() -> Iterator[None]:
    """Whatever fails: the thread that would notice the parent's end goes on."""
    try:
        yield
    except Exception:
        log.exception("what is said to the parent, or asked by it, failed")


class ParentLink:
    """Tells the parent when this process is ready and when it is worn out, and does what the parent asks for."""

    def __init__(self, line: socket.socket, max_jobs: int, max_memory: int, look: Look | None) -> None:
        self._line = line
        self._look = look
        self._look_at = 0.0  # monotonic
        self._max_jobs = max_jobs
        self._max_memory = max_memory
        self._said_why = False
        self._one_at_a_time = threading.Lock()  # two threads speak

    @classmethod
    def of_this_process(cls, max_jobs: int, max_memory: int, look: Look | None) -> ParentLink | None:
        """None where there is none. Found once: programs that a job starts have no part in it. `look` asks the server
        for the figures that the parent shows, if it shows any."""
        number = os.environ.pop(LINE_VARIABLE, None)
        if number is None:
            return None
        line = socket.socket(fileno=int(number))
        line.set_inheritable(False)
        line.settimeout(LOOK_EVERY_S)
        return cls(line, max_jobs, max_memory, look)

    def attend(self, launcher: Launcher, life: Lifecycle) -> None:
        self._say(FIGURES + SHAPE.encode())
        life.when_ready = lambda: self._say(READY)
        threading.Thread(target=self._listen, args=(launcher, life), name="parent", daemon=True).start()

    def _listen(self, launcher: Launcher, life: Lifecycle) -> None:
        table = {RECOVER: launcher.look_for_the_dead, REOPEN: reopen_log_files, RETIRE: life.retire}
        while True:
            try:
                heard = self._line.recv(4096)
            except TimeoutError:
                with _kept_alive():
                    if self._worn_out(launcher.processed):
                        self._say(WORN_OUT)  # again and again: the first successor may have failed to start
                with _kept_alive():
                    self.tell(launcher)
                continue
            except OSError:  # ECONNRESET: it died before it read our last word
                heard = b""
            if not heard:
                log.error("the parent process is gone: stopping")
                life.stop_without_hurry()
                return
            for word in heard.splitlines():
                with _kept_alive():
                    table.get(word, lambda: None)()

    def tell(self, launcher: Launcher) -> None:
        self._say(REPORT + json.dumps(launcher.report()).encode())
        if self._look is not None and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_AT_SERVER_EVERY_S
            with suppress(BrokerError):  # the parent forgets what it was told before
                self._say(STATS + json.dumps(self._look().as_dict()).encode())

    def fail(self, error: WorkersError) -> None:
        """Who has started the parent is told by the parent."""
        self._say(FAILED + json.dumps(as_word(error)).encode())

    def end_well(self) -> None:
        """Nothing is left to do. A signal that ends the interpreter before it has ended by itself is no failure."""
        self._say(ENDED_WELL)

    def _worn_out(self, processed: int) -> bool:
        why = ""
        if self._max_jobs and processed >= self._max_jobs:
            why = f"{processed:,} jobs, max_jobs is {self._max_jobs:,}"
        elif self._max_memory and (memory := resident_bytes()) > self._max_memory:
            why = f"{memory / 2**20:,.0f} MB resident, max_memory is {self._max_memory / 2**20:,.0f} MB"
        if why and not self._said_why:
            self._said_why = True
            log.info("worn out, to be replaced by a new process: %s", why)
        return bool(why)

    def _say(self, word: bytes) -> None:
        with self._one_at_a_time, suppress(OSError):  # it is gone, which the next look shows
            self._line.sendall(word + b"\n")
