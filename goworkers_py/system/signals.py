"""Signals, and the main thread's loop over them.

A handler only puts its number into a queue: it runs between any two instructions of the main thread, so it must not
take a lock that this thread may hold. The loop looks up what to do. The daemon's own `life` is in a thread beside it,
so that a signal is answered at any moment: while the server is waited for, and during the drain. The words that come
from the fleet, when somebody clicks on Quiet or Stop in Sidekiq's page, go the same way.

    TERM, INT   stop gracefully; again, later: at once, running jobs go back to their queues
    TSTP, USR1  quiet: no new jobs
    TTIN        log the stack of every thread, with the job that it runs
    HUP         open the log file anew, where there is one
    USR2        for the parent of `processes`, see `supervisor`; one that is sent to a single process does nothing
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType

from goworkers_py.observe.log_format import log_with_stack
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.system.lifecycle import Lifecycle
from goworkers_py.system.logs import log_files, reopen_log_files
from goworkers_py.system.parent_link import ParentLink
from goworkers_py.system.systemd import SystemdNotifier
from goworkers_py.wire.message import describe

log = logging.getLogger(__name__)

Handler = Callable[[int, FrameType | None], object] | int | None

_ENDED = 0  # in the queue of signals: the daemon's life is over

# A signal that comes just as the main thread falls asleep on the queue's lock does not wake it: Python runs the handler
# when that thread next does something. Under load that befell one signal in some hundred. Well below
# `life.SAME_REQUEST_S`: the second half of a request may come just then.
LONGEST_SLEEP_S = 0.2


def run_until_stopped(launcher: Launcher, parent: ParentLink | None, notifier: SystemdNotifier) -> int:
    """The exit code: 0 when nothing was left behind."""
    happened: queue.SimpleQueue[int | str] = queue.SimpleQueue()
    life = Lifecycle(launcher, ended=lambda: happened.put(_ENDED))
    launcher.stop_wanted = life.ask_to_stop
    launcher.obey = happened.put
    if parent is not None:
        parent.attend(launcher, life)
    table = _answers(launcher, life, alone=parent is None)
    before = _install(happened, [number for number in table if isinstance(number, int)])
    try:
        life.thread.start()
        for word in _until_ended(happened, lambda: notifier.follow(launcher.state, launcher.report)):
            if isinstance(word, int):
                log.info("got %s", signal.Signals(word).name)
            else:
                log.info("the fleet asks for %s", word)
            table.get(word, lambda: log.warning("that is not known here"))()
        life.thread.join()
        if parent is not None:
            parent.tell(launcher)  # the last jobs
        code = life.exit_code()
        if parent is not None and code == 0:
            parent.end_well()  # before a signal can end this process as it ends any other
        return code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _answers(launcher: Launcher, life: Lifecycle, alone: bool) -> dict[int | str, Callable[[], None]]:
    """The answer to each signal and to each word of the fleet. `alone`: there is no parent that Ctrl-C is for."""

    def dump() -> None:
        dump_threads(launcher)

    return {
        signal.SIGTERM: life.ask_to_stop,
        signal.SIGINT: life.interrupt if alone else life.ask_to_stop,
        signal.SIGTSTP: launcher.quiet,
        signal.SIGUSR1: launcher.quiet,  # what Sidekiq called it before version 5
        signal.SIGTTIN: dump,
        signal.SIGUSR2: lambda: log.warning("there is one process only: restart it for new code, or set `processes`"),
        **({signal.SIGHUP: reopen_log_files} if log_files() else {}),
        "TSTP": launcher.quiet,
        "TERM": life.stop_without_hurry,  # an impatient second click is no order to leave jobs behind
        "TTIN": dump,
    }


def _install(happened: queue.SimpleQueue[int | str], table: Iterable[int]) -> dict[int, Handler]:
    before: dict[int, Handler] = {number: signal.getsignal(number) for number in table}

    def handle(got: int, frame: FrameType | None) -> None:
        happened.put(got)

    for number in before:
        signal.signal(number, handle)
    _restore_in_forks(handle, before)
    return before


def _restore_in_forks(ours: Handler, before: Mapping[int, Handler]) -> None:
    """Gives a child that a job forks the handlers that any Python program has: multiprocessing, for one, asks its
    children to end by TERM and waits until they have. The child's main thread forgets a signal that Python has noted
    in its first moments, so signals are blocked from the fork until the handlers are restored."""

    mask_before = threading.local()

    def hold() -> None:
        mask_before.signals = signal.pthread_sigmask(signal.SIG_BLOCK, before)

    def let_go() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before.signals)

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is ours:
                signal.signal(number, handler)
        let_go()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=restore)


def _until_ended(happened: queue.SimpleQueue[int | str], meanwhile: Callable[[], None]) -> Iterator[int | str]:
    while True:
        meanwhile()
        try:
            word = happened.get(timeout=LONGEST_SLEEP_S)
        except queue.Empty:
            continue
        if word == _ENDED:
            meanwhile()
            return
        yield word


def dump_threads(launcher: Launcher) -> None:
    jobs = launcher.running
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = [(names.get(ident, str(ident)), frame) for ident, frame in sys._current_frames().items()]
    for name, frame in sorted(stacks, key=lambda item: item[0] not in jobs):  # those with a job first
        what = f" runs {describe(jobs[name].raw, jobs[name].queue)}" if name in jobs else ""
        stack = "".join(traceback.format_stack(frame)).rstrip()
        log_with_stack(log, logging.WARNING, stack, "thread %s%s", name, what)
