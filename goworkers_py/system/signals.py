"""The signals that a daemon handles, and the command for each.

A handler only puts a command into the inbox. It runs between any two instructions of the main thread, so it must not
take a lock that the main thread may hold.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from goworkers_py.core.command import Command
from goworkers_py.system import early_signals
from goworkers_py.system.inbox import Inbox, Order
from goworkers_py.system.logs import log_files

if TYPE_CHECKING:
    from goworkers_py.system.early_signals import SignalHandler


def commands_of_signals() -> dict[int, Command]:
    return {
        signal.SIGTERM: Command.STOP_OR_HURRY,
        signal.SIGINT: Command.INTERRUPT,
        signal.SIGTSTP: Command.QUIET,
        signal.SIGUSR1: Command.QUIET,  # what Sidekiq called it before version 5
        signal.SIGTTIN: Command.DUMP,
        signal.SIGUSR2: Command.REPLACE,
        **({signal.SIGHUP: Command.REOPEN} if log_files() else {}),
    }


@contextmanager
def handled_by(inbox: Inbox) -> Iterator[None]:
    """Until the end of the block, each signal puts its order into the inbox. First come those from before the block."""
    orders = {
        number: Order(command, f"got {signal.Signals(number).name}")
        for number, command in commands_of_signals().items()
    }
    before: dict[int, SignalHandler] = {number: signal.getsignal(number) for number in orders}

    def handle(got: int, frame: FrameType | None) -> None:
        inbox.put(orders[got])

    for number in orders:
        signal.signal(number, handle)
    _restore_in_forks(handle, {number: early_signals.before_noting(handler) for number, handler in before.items()})
    for number in early_signals.take():
        inbox.put(orders[number])
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _restore_in_forks(ours: SignalHandler, before: Mapping[int, SignalHandler]) -> None:
    """Restores the handlers from before in a child that a job forks. For example, multiprocessing sends TERM to its
    children and waits for their end. Python forgets a signal that it noted in the child's first moments, so signals are
    blocked from the fork until the handlers are restored."""

    mask_before = threading.local()

    def block() -> None:
        mask_before.signals = signal.pthread_sigmask(signal.SIG_BLOCK, before)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before.signals)

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is ours:
                signal.signal(number, handler)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=restore)


@contextmanager
def signals_as_bytes(numbers: Iterable[int]) -> Iterator[socket.socket]:
    """For a loop over sockets: until the end of the block, each signal sends a byte to the socket, and its handler does
    nothing. Those that came before the block are the first."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)  # first: no signal may come in between
    handlers = {number: signal.signal(number, _nothing) for number in numbers}
    if came := early_signals.take():
        theirs.send(bytes(came))
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        ours.close()
        theirs.close()


def _nothing(number: int, frame: FrameType | None) -> None:
    pass
