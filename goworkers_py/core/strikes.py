"""Exceptions that are thrown into a thread from outside: into that of a job which is cancelled, or runs too long.

Python raises such an exception between any two instructions of the thread, and where it looks for one differs from
release to release. From 3.14 on also between the taking of a lock and the block of its `with`: the lock would stay
taken for ever, and with it the process would stand still. So a thread can be shut: then nothing is thrown into it, and
what was to be thrown is raised by the thread itself when it is open again. `Lock` shuts its thread while it is taken.
All locks that a job's thread may take are of this kind.

Nobody takes a lock to agree on this. The thread that throws sets `deciding`, then reads `shut`. The other one sets
`shut`, then reads `deciding`, and waits while it is set. So at least one of the two sees what the other has set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from goworkers_py.core import machine


class StrikeTarget:
    """A thread, as those see it who throw exceptions into it. Each field is read and set in single steps."""

    __slots__ = ("_deciding", "_ident", "_pending", "_shut", "_thrown")

    def __init__(self, ident: int) -> None:
        self._ident = ident
        self._shut = 0  # how many locks the thread holds, or is about to take; set by the thread
        self._deciding = False  # set by the thread that throws, as the next two
        self._thrown = False  # an exception is on its way, or has arrived
        self._pending: type[BaseException] | None = None

    # --- any other thread

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Keeps the thread from ending its run, see `meet`, and from taking its first lock. For a few steps, which wait
        for nothing that the thread may have."""
        with _throwing:
            self._deciding = True
            try:
                yield
            finally:
                self._deciding = False

    def throw(self, error: type[BaseException]) -> None:
        """While it is held up."""
        if self._shut:
            self._pending = error
        else:
            self._thrown = True
            machine.throw(self._ident, error)

    # --- the thread itself

    def meet(self) -> None:
        """Raises at the latest here the exception that was thrown. The thread calls it at the end of a run, after it
        has set the mark by which others see that the run is over."""
        self._shut = 0  # where the run was struck between the marks of a lock, one has stayed
        while self._deciding:
            machine.sleep(0)
        error, self._pending = self._pending, None
        if self._thrown:
            self._land()  # raises what was thrown, and what waits here is for the same run
        if error is not None:
            raise error

    def reset(self) -> None:
        """Before a run, by a thread without locks: what somebody else has thrown may have left it shut."""
        self._shut, self._pending = 0, None

    def _land(self) -> None:
        self._thrown = False
        machine.land()

    def _close(self) -> None:
        self._shut += 1
        if self._shut == 1 and (self._deciding or self._thrown):
            try:
                while self._deciding:
                    machine.sleep(0)
                if self._thrown:
                    self._land()
            except BaseException:
                self._shut -= 1
                raise

    def _open(self) -> None:
        self._shut = max(0, self._shut - 1)
        if not self._shut and (self._deciding or self._pending is not None):
            self.meet()


_targets: dict[int, StrikeTarget] = {}  # by the number of the thread, which a later thread may have again


def target_of(ident: int) -> StrikeTarget:
    """The target of the thread with this number."""
    found = _targets.get(ident)
    return _targets.setdefault(ident, StrikeTarget(ident)) if found is None else found


class Lock:
    """A lock that no thrown exception leaves taken."""

    __slots__ = ("_lock",)

    def __init__(self, lock: Any = None) -> None:
        self._lock = machine.Lock() if lock is None else lock

    def acquire(self, timeout: float = -1) -> bool:
        target = target_of(machine.get_ident())
        target._close()
        taken: bool = self._lock.acquire(timeout=timeout)
        if not taken:
            target._open()
        return taken

    def release(self) -> None:
        self._lock.release()
        target_of(machine.get_ident())._open()

    def __enter__(self) -> None:  # as `acquire`: it is called often
        target_of(machine.get_ident())._close()
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()
        target_of(machine.get_ident())._open()


def lock_outside_runs(lock: Any = None) -> Any:
    """For what a worker does outside of its runs, where only strangers throw. Up to Python 3.13 a plain lock in a
    `with` withstands them. From 3.14 on nothing does, and this one withstands what is thrown as above."""
    lock = machine.Lock() if lock is None else lock
    return lock if sys.version_info < (3, 14) else Lock(lock)


_throwing = Lock()  # one thread throws at a time


def _begin_child() -> None:
    """In a forked child nobody throws: the thread that did so is the parent's."""
    global _throwing
    _throwing = Lock()
    _targets.clear()


os.register_at_fork(after_in_child=_begin_child)
