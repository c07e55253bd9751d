"""Pushes that are held back until the job that makes them has ended well."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from goworkers_py.core.effect import Push, PushJobs
from goworkers_py.core.held_pushes import HeldPushes, Home
from goworkers_py.core.outcome import DONE, Done
from goworkers_py.wire import payload
from goworkers_py.wire.message import Message, Timestamps, current_message

# An exception that is thrown into a thread may strike `hold_back` before it has reset this variable. The pushes of
# later jobs of the thread must not be held back then. So it is a weak reference, and counts for its own run only.
_holding: ContextVar[weakref.ref[HeldPushes] | None] = ContextVar("goworkers_py_held_pushes", default=None)


def holding(home: Home) -> HeldPushes | None:
    """Where the code that runs now adds its pushes to the broker `home`; None when it pushes at once."""
    reference = _holding.get()
    held = reference() if reference is not None else None
    return held if held is not None and held.home == home and held.run is current_message() else None


@contextmanager
def hold_back(home: Home, publish: Callable[[Sequence[Push]], object]) -> Iterator[None]:
    """Holds back the pushes to the broker `home` inside the block. If the block raises, they are dropped. The pushes of
    a job happen when the job has ended well. Outside of a job they are published together, at the end of the block."""
    held = holding(home) or _held_by_job(home)
    outermost = held is None
    held = held or HeldPushes(home, current_message())
    before, outer = held.count, _holding.get()
    _holding.set(weakref.ref(held))
    try:
        yield
    except BaseException:
        held.drop_after(before)
        raise
    finally:
        _holding.set(outer)
    if outermost and (pushes := held.close()):
        publish(pushes)


def _held_by_job(home: Home) -> HeldPushes | None:
    """Where the running job holds back its pushes to `home`; None outside of a job, and in a job of another broker."""
    message = current_message()
    held = getattr(message, "held", None)
    if held == home and message is not None:
        held = message.held = HeldPushes(home, message)
    return held if isinstance(held, HeldPushes) and held.home == home else None


class AtomicFinish:
    """How the jobs of a daemon end that have held back pushes."""

    def __init__(
        self, home: Home = ("", ""), timestamps: Timestamps | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        self.home = home  # the daemon's broker
        self._timestamps = timestamps or Timestamps()
        self._wall = wall

    def done(self, message: Message) -> Done:
        """The outcome of a job whose code has returned."""
        held = message.held
        assert isinstance(held, HeldPushes)
        pushes = held.close()
        if not pushes:
            return DONE
        # The jobs come into their queues only now. With the time of the call, a queue would look as if it had waited.
        stamp = payload.splicer({"enqueued_at": self._timestamps.write(self._wall())})
        stamped = [push if push.at is not None else Push(push.queue, stamp(push.payload)) for push in pushes]
        return Done(effects=(PushJobs(message.jid, tuple(stamped)),))
