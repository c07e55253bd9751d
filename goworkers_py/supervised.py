"""The child's end of the line to its parent, see `supervisor`."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from contextlib import suppress

from goworkers_py.identity import resident_bytes
from goworkers_py.launcher import Launcher
from goworkers_py.life import Life

log = logging.getLogger(__name__)

# In the environment of a child: the number of its end of the line.
LINE_VARIABLE = "PYWORKERS_LINE_TO_PARENT"
LOOK_EVERY_S = 1.0

# What is said on the line, each with a line end.
READY, WORN_OUT, REPORT = b"ready", b"worn out", b"report "
RETIRE, RECOVER = b"retire", b"recover"


class Parent:
    """Tells the parent when this process is ready and when it is worn out, and does what the parent asks for."""

    def __init__(self, line: socket.socket, max_jobs: int, max_memory: int) -> None:
        self._line = line
        self._max_jobs = max_jobs
        self._max_memory = max_memory
        self._said_why = False
        self._one_at_a_time = threading.Lock()  # two threads speak

    @classmethod
    def of_this_process(cls, max_jobs: int, max_memory: int) -> Parent | None:
        """None where there is none. Found once: programs that a job starts have no part in it."""
        number = os.environ.pop(LINE_VARIABLE, None)
        if number is None:
            return None
        line = socket.socket(fileno=int(number))
        line.set_inheritable(False)
        line.settimeout(LOOK_EVERY_S)
        return cls(line, max_jobs, max_memory)

    def attend(self, launcher: Launcher, life: Life) -> None:
        life.when_ready = lambda: self._say(READY)
        threading.Thread(target=self._listen, args=(launcher, life), name="parent", daemon=True).start()

    def _listen(self, launcher: Launcher, life: Life) -> None:
        while True:
            try:
                heard = self._line.recv(4096)
            except TimeoutError:
                self._say(REPORT + json.dumps(launcher.report()).encode())
                if self._worn_out(launcher.counters.snapshot().get("processed", 0)):
                    self._say(WORN_OUT)  # again and again: the first successor may have failed to start
                continue
            except OSError:  # ECONNRESET: it died before it read our last word
                heard = b""
            if not heard:
                log.error("the parent process is gone: stopping")
                life.stop_without_hurry()
                return
            if RECOVER in heard:
                launcher.look_for_the_dead()
            if RETIRE in heard:
                life.retire()

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
