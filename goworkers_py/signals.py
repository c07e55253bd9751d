"""Signals, and the main thread's loop over them.

A handler only puts its number into a queue: it runs between any two instructions of the main thread, so it must not
take a lock that this thread may hold. The loop looks up what to do. The daemon's own life, start to stop, is in a
thread beside it, so that a signal is answered at any moment: while the server is waited for, and during the drain.

    TERM, INT   stop gracefully; again, later: at once, running jobs go back to their queues
    TSTP        quiet: no new jobs
    TTIN        log the stack of every thread, with the job that it runs
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from goworkers_py.errors import WorkersError
from goworkers_py.launcher import Launcher
from goworkers_py.message import describe

log = logging.getLogger(__name__)

# A terminal, `timeout` and shell wrappers send a signal to the process and to its group: twice, but meant once.
SAME_REQUEST_S = 0.5

Handler = Callable[[int, FrameType | None], object] | int | None

_ENDED = 0  # in the queue of signals: the daemon's life is over

# A signal that comes just as the main thread falls asleep on the queue's lock does not wake it: Python runs the handler
# when that thread next does something. Under load that befell one signal in some hundred. Well below SAME_REQUEST_S:
# the second half of a request may come just then.
LONGEST_SLEEP_S = 0.2


def run_until_stopped(launcher: Launcher) -> int:
    """The exit code: 0 when nothing was left behind."""
    happened: queue.SimpleQueue[int] = queue.SimpleQueue()
    before = _install(happened)
    life = _Life(launcher, ended=lambda: happened.put(_ENDED))
    launcher.stop_wanted = life.ask_to_stop
    table: dict[int, Callable[[], None]] = {
        signal.SIGTERM: life.ask_to_stop,
        signal.SIGINT: life.ask_to_stop,
        signal.SIGTSTP: launcher.quiet,
        signal.SIGTTIN: lambda: dump_threads(launcher),
    }
    try:
        life.thread.start()
        for number in _until_ended(happened):
            log.info("got SIG%s", signal.Signals(number).name.removeprefix("SIG"))
            table[number]()
        life.thread.join()
        return life.exit_code()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _install(happened: queue.SimpleQueue[int]) -> dict[int, Handler]:
    process = os.getpid()
    before: dict[int, Handler] = {}

    def handle(got: int, frame: FrameType | None) -> None:
        if os.getpid() == process:
            happened.put(got)
        else:
            # In a child that a job has forked: there it does what it does in any Python program. Who asks the child to
            # end, as multiprocessing does, waits for its end.
            signal.signal(got, before[got])
            signal.raise_signal(got)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTSTP, signal.SIGTTIN):
        before[number] = signal.getsignal(number)
        signal.signal(number, handle)
    return before


def _until_ended(happened: queue.SimpleQueue[int]) -> Iterator[int]:
    while True:
        try:
            number = happened.get(timeout=LONGEST_SLEEP_S)
        except queue.Empty:
            continue
        if number == _ENDED:
            return
        yield number


class _Life:
    """One run of the daemon, in a thread of its own."""

    def __init__(self, launcher: Launcher, ended: Callable[[], None]) -> None:
        self.thread = threading.Thread(target=self._live, name="launcher", daemon=True)
        self._launcher = launcher
        self._ended = ended
        self._stop_asked = threading.Event()
        self._asked_at = 0.0
        self._error: BaseException | None = None
        self._clean = True

    def ask_to_stop(self) -> None:
        if not self._stop_asked.is_set():
            self._asked_at = time.monotonic()
            self._stop_asked.set()
        elif time.monotonic() - self._asked_at > SAME_REQUEST_S:
            log.warning("asked again: not waiting for running jobs")
            self._launcher.hurry()

    def _live(self) -> None:
        try:
            if self._launcher.start(self._stop_asked):
                log.info("%s works; stop it with TERM or Ctrl-C", self._launcher)
                self._stop_asked.wait()
                self._clean = self._launcher.stop()
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
        if self._launcher.workers_alive:
            # Jobs that cannot be interrupted run on in their threads; the interpreter's own way out would wait for
            # what they hold. They were given back to their queues.
            logging.shutdown()
            sys.stdout.flush()
            os._exit(code)
        return code


def dump_threads(launcher: Launcher) -> None:
    jobs = {running.thread_id: running for running in launcher.busy.snapshot().values()}
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    for thread_id, frame in sorted(frames.items(), key=lambda item: item[0] not in jobs):  # those with a job first
        running = jobs.get(thread_id)
        what = f" runs {describe(running.delivery.raw, running.delivery.queue)}" if running else ""
        stack = "".join(traceback.format_stack(frame)).rstrip()
        log.warning("thread %s%s\n%s", names.get(thread_id, thread_id), what, stack)
