"""Commands arrive in their order, from any thread and from signal handlers."""

from __future__ import annotations

import queue
import signal
import threading

import pytest

from goworkers_py.core.command import Command
from goworkers_py.system.inbox import Inbox, Order


def test_orders_come_out_as_they_came_each_with_the_line_for_the_log() -> None:
    inbox = Inbox()
    inbox.put(Order(Command.QUIET, "got SIGTSTP"))
    inbox.obey(Command.STOP, "the fleet")
    inbox.end()
    assert inbox.take(10) == (Command.QUIET, "got SIGTSTP")
    assert inbox.take(10) == (Command.STOP, "the fleet asks: stop")
    assert inbox.take(10) is None


def test_take_raises_at_the_time_limit() -> None:
    with pytest.raises(queue.Empty):
        Inbox().take(0.01)


def test_any_thread_wakes_take() -> None:
    inbox = Inbox()
    threading.Timer(0.05, inbox.obey, [Command.DUMP, "somebody"]).start()
    assert inbox.take(20) == (Command.DUMP, "somebody asks: dump")


def test_a_signal_handler_may_put_while_its_own_thread_takes() -> None:
    inbox, rounds = Inbox(), 200
    order = Order(Command.DUMP, "got SIGALRM")
    put = []

    def handle(*_: object) -> None:
        if len(put) < rounds:
            put.append(order)
            inbox.put(order)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        taken = []
        while len(taken) < rounds:
            try:
                taken.append(inbox.take(0.2))
            except queue.Empty:
                continue
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert taken == [order] * rounds
