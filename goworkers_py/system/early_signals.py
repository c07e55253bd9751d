"""The signals that come before this process handles them: during its imports, those of the user's modules too.

By default USR2 and the other signals of `NOTED` end or suspend a process. From the first moment of `pyworkers run`, see
the first lines of `goworkers_py/__init__.py`, they are noted, and obeyed when the process handles its signals.

TERM and INT end a process that has not begun as they end any program of Python: it holds no job yet. A handler of ours
would not run while a slow import waits in C code.

The handler is a function, not SIG_IGN: programs that the user's modules start would inherit that.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SignalHandler = Callable[[int, FrameType | None], object] | int | None

NOTED = {signal.SIGTSTP, signal.SIGUSR1, signal.SIGTTIN, signal.SIGUSR2, signal.SIGHUP}
# The kernel keeps a signal with its default action from the first process of a container, so TERM would be lost there.
_NOTED_HERE: set[int] = NOTED | ({signal.SIGTERM} if os.getpid() == 1 else set())
_WORKING = ("run", "start", "restart")

_came: list[int] = []  # in the main thread


def _note(number: int, frame: FrameType | None) -> None:
    _came.append(number)


def is_working_command() -> bool:
    """Whether this program is a command `pyworkers` that becomes a working process. Not so a process that a job starts
    by multiprocessing: it has the arguments of that command."""
    if any(word.startswith("from multiprocessing.") for word in sys.orig_argv):
        return False
    module = sys.argv[:1] == ["-m"] and any(word.endswith("goworkers_py.cli") for word in sys.orig_argv)
    return (module or sys.argv[0].rpartition("/")[2] == "pyworkers") and sys.argv[1:2] in [[word] for word in _WORKING]


def begin() -> list[int]:
    """Notes the signals whose action is the default one, and returns these. In the main thread."""
    taken = [number for number in _NOTED_HERE if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _note)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NOTED)  # a parent of `processes` has blocked them, see `blocked`
    return taken


@contextmanager
def noted() -> Iterator[None]:
    """`begin` for the length of a block."""
    taken = begin()
    try:
        yield
    finally:
        if taken:
            _let_go()


@contextmanager
def blocked() -> Iterator[None]:
    """A program that starts within the block begins with these signals blocked, so that they wait for its `begin`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, NOTED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def take() -> list[int]:
    """Called when the handlers of this process are in place. Returns the signals that have come, in order. One that has
    no handler, as HUP without a log file, gets its default action back, and that follows if the signal has come."""
    left = _let_go()
    came = _came[:]
    del _came[: len(came)]
    for number in left.intersection(came):
        os.kill(os.getpid(), number)
    return [number for number in came if number not in left]


def before_noting(handler: SignalHandler) -> SignalHandler:
    """The handler that was there before `begin`, if that has replaced it."""
    return signal.SIG_DFL if handler is _note else handler


def _let_go() -> set[int]:
    left = {number for number in _NOTED_HERE if signal.getsignal(number) is _note}
    for number in left:
        signal.signal(number, signal.SIG_DFL)
    return left


def _forget_in_fork() -> None:
    """A child that the user's modules fork during their import is a program of its own."""
    from goworkers_py.runtime.interpreter import collect_garbage_less_often

    _came.clear()
    _let_go()
    collect_garbage_less_often()


def begin_if_working() -> None:
    if is_working_command():
        begin()
        os.register_at_fork(after_in_child=_forget_in_fork)
        from goworkers_py.runtime.interpreter import AT_START, collect_garbage_less_often

        collect_garbage_less_often(AT_START)  # as early as the signals: the next imports make most of the objects


begin_if_working()
