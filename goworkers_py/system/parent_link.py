"""The child's end of the line, the socket pair, to its parent, see `supervisor`."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import simplejson

from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.core.command import Command
from goworkers_py.core.errors import BrokerError, WorkersError, error_to_json
from goworkers_py.core.proc import resident_bytes
from goworkers_py.observe.health_report import SHAPE

if TYPE_CHECKING:
    from goworkers_py.runtime.daemon import Daemon
    from goworkers_py.system.inbox import Inbox

log = logging.getLogger(__name__)

# In the environment of a child: the file descriptor of its end of the line.
LINE_VARIABLE = "PYWORKERS_LINE_TO_PARENT"
PARENT = "the parent"
LOOK_EVERY_S, LOOK_AT_SERVER_EVERY_S = 1.0, 5.0

# The words that the child sends, each with a line end. The parent sends the value of a Command.
READY, WORN_OUT, FIGURES, REPORT, STATS = b"ready", b"worn out", b"figures ", b"report ", b"stats "
FAILED, ENDED_WELL = b"failed ", b"ended well"


Look = Callable[[], Stats]


@contextmanager
def _kept_alive() -> Iterator[None]:
    """A failure must not end the `parent` thread, which notices the end of the parent."""
    try:
        yield
    except Exception:
        log.exception("cannot report to the parent")


class ParentLink:
    """Reports to the parent: ready, worn out, and the health. Puts the parent's commands into the inbox."""

    def __init__(self, line: socket.socket, max_jobs: int, max_memory: int, look: Look | None) -> None:
        self._line = line
        self._look = look
        self._look_at = 0.0  # monotonic
        self._max_jobs = max_jobs
        self._max_memory = max_memory
        self._said_why = False
        self._one_at_a_time = threading.Lock()  # the main thread, the launcher's and the `parent` thread send

    @classmethod
    def of_this_process(cls, max_jobs: int, max_memory: int, look: Look | None) -> ParentLink | None:
        """None if this process has no parent. Removes the variable, so that programs which a job starts do not see it.
        `look` asks the broker for the figures that the parent shows; None if the parent shows none."""
        number = os.environ.pop(LINE_VARIABLE, None)
        if number is None:
            return None
        line = socket.socket(fileno=int(number))
        line.set_inheritable(False)
        line.settimeout(LOOK_EVERY_S)
        return cls(line, max_jobs, max_memory, look)

    def attend(self, daemon: Daemon, inbox: Inbox) -> None:
        """Starts the `parent` thread, which listens to the parent and sends reports."""
        self._say(FIGURES + SHAPE.encode())
        threading.Thread(target=self._listen, args=(daemon, inbox), name="parent", daemon=True).start()

    def ready(self) -> None:
        """In the launcher's thread, when jobs are fetched."""
        self._say(READY)

    def _listen(self, daemon: Daemon, inbox: Inbox) -> None:
        while True:
            try:
                heard = self._line.recv(4096)
            except TimeoutError:
                with _kept_alive():
                    if self._worn_out(daemon.processed):
                        self._say(WORN_OUT)  # each time: the first successor may have failed to start
                with _kept_alive():
                    self.tell(daemon)
                    self._tell_figures()
                continue
            except OSError:  # ECONNRESET: the parent died before it read our last line
                heard = b""
            if not heard:
                log.error("the parent process is gone: stopping")
                inbox.obey(Command.STOP, PARENT)
                return
            for word in heard.decode(errors="replace").splitlines():
                with suppress(ValueError):  # a command of a later release
                    inbox.obey(Command(word), PARENT)

    def tell(self, daemon: Daemon) -> None:
        self._say(REPORT + simplejson.dumps(daemon.report()).encode())

    def _tell_figures(self) -> None:
        if self._look is not None and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_AT_SERVER_EVERY_S
            with suppress(BrokerError):  # the parent drops older figures itself
                self._say(STATS + simplejson.dumps(self._look().as_dict()).encode())

    def ask_for_successor(self) -> None:
        """Retires when that is ready. Only once: if it cannot start, this process goes on."""
        self._say(WORN_OUT)

    def fail(self, error: WorkersError) -> None:
        """Sends the error to the parent, which raises it for the user who started the parent."""
        self._say(FAILED + simplejson.dumps(error_to_json(error)).encode())

    def end_well(self) -> None:
        """The work is done. If a signal ends the interpreter from now on, that is no failure."""
        self._say(ENDED_WELL)

    def _worn_out(self, processed: int) -> bool:
        why = ""
        if self._max_jobs and processed >= self._max_jobs:
            why = f"{processed:,} jobs, max_jobs is {self._max_jobs:,}"
        elif self._max_memory and (memory := resident_bytes()) > self._max_memory:
            why = f"{memory / 2**20:,.0f} MB resident, max_memory is {self._max_memory / 2**20:,.0f} MB"
        if why and not self._said_why:
            self._said_why = True
            log.info("worn out, asking the parent for a successor: %s", why)
        return bool(why)

    def _say(self, word: bytes) -> None:
        with self._one_at_a_time, suppress(OSError):  # the parent is gone; the next `recv` shows it
            self._line.sendall(word + b"\n")
