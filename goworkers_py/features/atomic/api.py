"""`with workers.atomic():` and `@job(atomic=True)` hold back pushes until the job that makes them has ended well."""

from __future__ import annotations

import functools
import inspect
import os
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from goworkers_py.core import machine
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.fork_count import FORKS
from goworkers_py.core.home import Home, RunHome
from goworkers_py.core.push_blocks import PushBlock, blocks_now, put_block
from goworkers_py.features import resumer_of
from goworkers_py.features.atomic.held_pushes import HeldPushes
from goworkers_py.wire.message import current_message

NAME = "atomic"

P = ParamSpec("P")
R = TypeVar("R")


class AtomicBlock(PushBlock):
    """An exception that is thrown into a thread may strike `hold_back` before it has put back the outer block. The
    pushes of later jobs of the thread must not be held back then. So this has a weak reference, and counts for its own
    run only."""

    def __init__(self, held: HeldPushes) -> None:
        self._held = weakref.ref(held)

    def now(self) -> HeldPushes | None:
        """None for other code than that of the block. A thread that a job starts pushes at once, also when it got a
        copy of the job's context."""
        held = self._held()
        if held is None or held.run is not current_message() or held.thread != machine.get_ident():
            return None
        return held

    def holding(self, to: Home | None) -> HeldPushes | None:
        """A job pushes at once to a broker that only its own process can reach, because another one may relay the
        pushes."""
        held = self.now()
        return held if held is None or to is None or to.shared or held.home in (to, None) else None


@contextmanager
def hold_back() -> Iterator[None]:
    """Holds back the pushes inside the block. If the block raises, they are dropped. The pushes of a job happen when
    the job has ended well. Outside of a job they are published together, at the end of the block."""
    outer, forks = _outer(), FORKS.count
    held = HeldPushes(current_message(), outer.here if outer is not None else None, outer)
    around = put_block(NAME, AtomicBlock(held))
    try:
        yield
    except BaseException:
        held.drop()
        raise
    finally:
        put_block(NAME, around)
    # In a child that the block forked, the pushes are those of the parent.
    if FORKS.count == forks:
        for destination, pushes in held.end().items():
            destination.publish_held(pushes)


def _outer() -> HeldPushes | None:
    """The block around a new one. A block of a link is not around those of the job: they end with the job."""
    block = (blocks_now() or {}).get(NAME)
    inner, job = block.now() if isinstance(block, AtomicBlock) else None, _held_by_job()
    return inner if inner is not None and (job is None or inner.whole is job) else job


def _held_by_job() -> HeldPushes | None:
    """Where the running job holds back its pushes; None outside of a job."""
    message = current_message()
    held = None if message is None else message.held
    if message is None or held is None or message.thread != machine.get_ident():
        return None
    if isinstance(held, RunHome):
        held = message.held = HeldPushes(message, held)
    assert isinstance(held, HeldPushes)
    return held


# A child that a job forked ends without an outcome, so it pushes at once.
os.register_at_fork(after_in_child=lambda: put_block(NAME, None))


def atomically(function: Callable[P, R]) -> Callable[P, R]:
    """The function with its whole run inside `atomic`, also when it is async."""
    if resumer_of(function) is not None:
        raise ConfigError(
            f"@job: {function.__qualname__} is iterable, and atomic=True holds back its pushes for all its runs; "
            "leave it out, and push inside of `with workers.atomic():` between two yields"
        )

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Any:
        with hold_back():
            result = function(*args, **kwargs)
        return _awaited(result) if inspect.iscoroutine(result) else result

    return run


async def _awaited(coroutine: Coroutine[Any, Any, R]) -> R:
    with hold_back():
        return await coroutine
