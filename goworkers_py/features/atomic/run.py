"""Pushes that are held back until the job that makes them has ended well."""

from __future__ import annotations

import dataclasses
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from goworkers_py.core import machine
from goworkers_py.core.effect import Effect, PostJobs, Push, PushJobs
from goworkers_py.core.fork_count import FORKS
from goworkers_py.core.outcome import DONE, Done
from goworkers_py.features.atomic.held_pushes import Destination, HeldPushes, Home
from goworkers_py.wire import payload
from goworkers_py.wire.message import Timestamps, current_message

# An exception that is thrown into a thread may strike `hold_back` before it has reset this variable. The pushes of
# later jobs of the thread must not be held back then. So it is a weak reference, and counts for its own run only.
_holding: ContextVar[weakref.ref[HeldPushes] | None] = ContextVar("goworkers_py_held_pushes", default=None)
held_now = _holding.get  # None: no push is held back


def holding(to: Home) -> HeldPushes | None:
    """Where the code that runs now adds its pushes to this broker; None when it pushes at once. A job pushes at once to
    a broker that only its own process can reach, because another one may relay the pushes. A thread that a job starts
    pushes at once, also when it got a copy of the job's context."""
    held = _holding_now()
    return held if held is None or to.shared or held.home in (to, None) else None


def _holding_now() -> HeldPushes | None:
    reference = _holding.get()
    held = reference() if reference is not None else None
    if held is None or held.run is not current_message() or held.thread != machine.get_ident():
        return None
    return held


def is_held_back() -> bool:
    """Whether the code that runs now is inside of a block of `atomic`."""
    return _holding_now() is not None


@contextmanager
def hold_back() -> Iterator[None]:
    """Holds back the pushes inside the block. If the block raises, they are dropped. The pushes of a job happen when
    the job has ended well. Outside of a job they are published together, at the end of the block."""
    outer, around, forks = _outer(), _holding.get(), FORKS.count
    held = HeldPushes(current_message(), outer.home if outer is not None else None, outer)
    _holding.set(weakref.ref(held))
    try:
        yield
    except BaseException:
        held.drop()
        raise
    finally:
        _holding.set(around)
    # In a child that the block forked, the pushes are those of the parent.
    if FORKS.count == forks:
        for destination, pushes in held.end().items():
            destination.publish_held(pushes)


def _outer() -> HeldPushes | None:
    """The block around a new one. A block of a link is not around those of the job: they end with the job."""
    inner, job = _holding_now(), _held_by_job()
    return inner if inner is not None and (job is None or inner.whole is job) else job


def _held_by_job() -> HeldPushes | None:
    """Where the running job holds back its pushes; None outside of a job."""
    message = current_message()
    held = getattr(message, "held", None)
    if message is None or held is None or message.thread != machine.get_ident():
        return None
    if isinstance(held, Home):
        held = message.held = HeldPushes(message, held)
    return held


def _push_at_once() -> None:
    """In a child that a job forked: it ends without an outcome."""
    _holding.set(None)
    message = current_message()
    if message is not None:
        message.held = None


os.register_at_fork(after_in_child=_push_at_once)


# The brokers to which jobs of this process have held back pushes, by name: the relay publishes to them.
DESTINATIONS: dict[str, Destination] = {}


NOWHERE = Home("")


class AtomicFinish:
    """How the jobs of a daemon end that have held back pushes."""

    def __init__(
        self,
        home: Home = NOWHERE,
        timestamps: Timestamps | None = None,
        wall: Callable[[], float] = lambda: machine.time(),
    ) -> None:
        self.home = home  # the daemon's broker
        self._timestamps = timestamps or Timestamps()
        self._wall = wall

    def done(self, held: HeldPushes, jid: str) -> Done:
        """The outcome of a job whose code has returned."""
        by_home: dict[Home, list[Push]] = {}
        for destination, pushes in held.end().items():
            by_home.setdefault(destination.home, []).extend(pushes)
            if destination.home != self.home:
                DESTINATIONS[destination.home.name] = destination
        effects: list[Effect] = [
            PushJobs(jid, tuple(self._stamped(pushes)))
            if home == self.home
            else PostJobs(jid, home.name, tuple(map(_named, pushes)))
            for home, pushes in by_home.items()
        ]
        return Done(effects=tuple(effects)) if effects else DONE

    def _stamped(self, pushes: Sequence[Push]) -> Iterator[Push]:
        """The jobs come into their queues only now. With the time of the call, a queue would look as if it had
        waited."""
        stamp = payload.splicer({"enqueued_at": self._timestamps.write(self._wall())})
        return (
            dataclasses.replace(push, payload=push.payload if push.at is not None else stamp(push.payload), id="")
            for push in pushes
        )


def _named(push: Push) -> Push:
    """With an id: it may be relayed more than once."""
    return dataclasses.replace(push, id=push.id or machine.token_hex(12))
