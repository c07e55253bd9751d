"""Pushes that are held back until the job that makes them has ended well."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.fork_count import FORKS
from goworkers_py.core.held_pushes import HeldPushes, Home
from goworkers_py.core.outcome import DONE, Done
from goworkers_py.wire import payload
from goworkers_py.wire.message import Timestamps, current_message

# An exception that is thrown into a thread may strike `hold_back` before it has reset this variable. The pushes of
# later jobs of the thread must not be held back then. So it is a weak reference, and counts for its own run only.
_holding: ContextVar[weakref.ref[HeldPushes] | None] = ContextVar("goworkers_py_held_pushes", default=None)


def holding(home: Home) -> HeldPushes | None:
    """Where the code that runs now adds its pushes to the broker `home`; None when it pushes at once. A thread that a
    job starts pushes at once, also when it got a copy of the job's context."""
    reference = _holding.get()
    held = reference() if reference is not None else None
    if held is None or held.home != home or held.run is not current_message() or held.thread != threading.get_ident():
        return None
    return held


@contextmanager
def hold_back(home: Home, publish: Callable[[Sequence[Push]], object]) -> Iterator[None]:
    """Holds back the pushes to the broker `home` inside the block. If the block raises, they are dropped. The pushes of
    a job happen when the job has ended well. Outside of a job they are published together, at the end of the block."""
    outer, around, forks = holding(home) or _held_by_job(home), _holding.get(), FORKS.count
    held = HeldPushes(home, current_message(), outer)
    _holding.set(weakref.ref(held))
    try:
        yield
    except BaseException:
        held.drop()
        raise
    finally:
        _holding.set(around)
    # In a child that the block forked, the pushes are those of the parent.
    if FORKS.count == forks and (pushes := held.end()):
        publish(pushes)


def _held_by_job(home: Home) -> HeldPushes | None:
    """Where the running job holds back its pushes to `home`; None outside of a job, and in a job of another broker."""
    message = current_message()
    held = getattr(message, "held", None)
    if message is None or held is None or message.thread != threading.get_ident():
        return None
    if held == home:
        held = message.held = HeldPushes(home, message)
    return held if isinstance(held, HeldPushes) and held.home == home else None


def _push_at_once() -> None:
    """In a child that a job forked: it ends without an outcome."""
    _holding.set(None)
    message = current_message()
    if message is not None:
        message.held = None


os.register_at_fork(after_in_child=_push_at_once)


class AtomicFinish:
    """How the jobs of a daemon end that have held back pushes."""

    def __init__(
        self, home: Home = ("", ""), timestamps: Timestamps | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        self.home = home  # the daemon's broker
        self._timestamps = timestamps or Timestamps()
        self._wall = wall

    def done(self, held: HeldPushes, jid: str) -> Done:
        """The outcome of a job whose code has returned."""
        pushes = held.end()
        if not pushes:
            return DONE
        # The jobs come into their queues only now. With the time of the call, a queue would look as if it had waited.
        stamp = payload.splicer({"enqueued_at": self._timestamps.write(self._wall())})
        stamped = [push if push.at is not None else Push(push.queue, stamp(push.payload)) for push in pushes]
        return Done(effects=(PushJobs(jid, tuple(stamped)),))
