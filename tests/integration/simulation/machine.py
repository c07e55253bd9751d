"""Stands in for `goworkers_py.core.machine`: clocks, threads, locks, queues and chance of a simulated process."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from queue import Empty
from typing import Any

import goworkers_py.links.interruption  # noqa: F401  # makes a lock, which would be of the first kernel
from goworkers_py.core import machine
from simulation.kernel import Kernel, Task

EPOCH = 1_800_000_000.0
_BOOTED = 1_000.0  # what the monotonic clocks show at the begin


@contextmanager
def simulated(kernel: Kernel) -> Iterator[None]:
    """Until the end of the block, the whole package lives on the machine of the kernel."""
    replaced = _Machine(kernel).names()
    real = {name: getattr(machine, name) for name in replaced}
    vars(machine).update(replaced)
    try:
        yield
    finally:
        vars(machine).update(real)


class _Machine:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def names(self) -> dict[str, Any]:
        kernel = self._kernel

        class Here:
            """Gives the classes below their kernel."""

            kernel = self._kernel

        return {
            "time": self._time,
            "monotonic": self._monotonic,
            "perf_counter": self._monotonic,
            "process_time": lambda: 0.0,
            "awake_and_asleep": lambda: _BOOTED + kernel.now,
            "sleep": self._sleep,
            "current_thread": self._current_thread,
            "get_ident": lambda: kernel.current.ident if kernel.current is not None else 0,
            "threads": list,
            "throw": self._throw,
            "land": kernel.land,
            "random": kernel.random,
            "token_hex": lambda nbytes=32: f"{kernel.random.getrandbits(8 * nbytes):0{2 * nbytes}x}",
            "local": type("local", (_Local, Here), {}),
            "Thread": type("Thread", (_Thread, Here), {}),
            "Event": type("Event", (_Event, Here), {}),
            "Lock": type("Lock", (_Lock, Here), {}),
            "Condition": type("Condition", (_Condition, Here), {}),
            "SimpleQueue": type("SimpleQueue", (_SimpleQueue, Here), {}),
            "Queue": type("Queue", (_SimpleQueue, Here), {}),
        }

    def _time(self) -> float:
        task = self._kernel.current
        return EPOCH + self._kernel.now + (task.process.wall_ahead_s if task is not None else 0.0)

    def _monotonic(self) -> float:
        task = self._kernel.current
        return _BOOTED + self._kernel.now - (task.process.asleep_s if task is not None else 0.0)

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._kernel.wait(seconds)
        else:
            self._kernel.let_step()

    def _current_thread(self) -> Any:
        task = self._kernel.current
        return _OUTSIDE if task is None else _THREADS.get(task, _OUTSIDE)

    def _throw(self, ident: int, error: type[BaseException]) -> None:
        task = self._kernel.current
        if task is not None and (target := task.process.tasks.get(ident)) is not None:
            target.thrown = error


class _Outside:
    """The thread of the test, which builds the fleet."""

    name, ident = "outside", 0


_OUTSIDE = _Outside()
_THREADS: dict[Task, Any] = {}


class _Thread:
    kernel: Kernel

    def __init__(
        self,
        target: Callable[..., object] | None = None,
        name: str = "thread",
        args: Collection[Any] = (),
        kwargs: Any = None,
        daemon: bool = True,
    ) -> None:
        self.name = name
        self.daemon = daemon
        self.ident: int | None = None
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self._task: Task | None = None
        self._joining: list[Task] = []

    def start(self) -> None:
        kernel = self.kernel
        assert kernel.current is not None
        self._task = kernel.spawn(kernel.current.process, self.name, self._main)
        self.ident = self._task.ident
        _THREADS[self._task] = self

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def _main(self) -> None:
        try:
            self.run()
        finally:
            if self._task is not None:
                _THREADS.pop(self._task, None)
                self._task.ended = True
            for task in self._joining:
                self.kernel.wake(task)

    def is_alive(self) -> bool:
        self.kernel.touch()
        return self._task is not None and not self._task.ended

    def join(self, timeout: float | None = None) -> None:
        if self.is_alive() and self.kernel.current is not None:
            self._joining.append(self.kernel.current)
            self.kernel.wait(math.inf if timeout is None else timeout)


class _Waiters:
    """The threads that wait for one thing."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._tasks: deque[Task] = deque()

    def wait(self, seconds: float) -> bool:
        task = self._kernel.current
        assert task is not None, "the thread of the test waits for the fleet"
        self._tasks.append(task)
        try:
            return self._kernel.wait(seconds)
        finally:
            if not task.woken and task in self._tasks:
                self._tasks.remove(task)

    def wake(self, most: float = math.inf) -> None:
        while self._tasks and most > 0:
            task = self._tasks.popleft()
            if task.waits:
                self._kernel.wake(task)
                most -= 1


def _seconds(timeout: float | None) -> float:
    return math.inf if timeout is None or timeout < 0 else timeout


class _Event:
    kernel: Kernel

    def __init__(self) -> None:
        self._set = False
        self._waiters = _Waiters(self.kernel)

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self.kernel.touch()
        self._set = True
        self._waiters.wake()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            self._waiters.wait(_seconds(timeout))
        else:
            self.kernel.touch()
        return self._set


class _Lock:
    kernel: Kernel

    def __init__(self) -> None:
        self._taken = False
        self._waiters = _Waiters(self.kernel)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self.kernel.touch()
        if not self._taken:
            self._taken = True
            return True
        if not blocking:
            return False
        until = self.kernel.now + _seconds(timeout)
        while self._taken:
            left = until - self.kernel.now
            if left <= 0:
                return False
            self._waiters.wait(left)
        self._taken = True
        return True

    def release(self) -> None:
        self._taken = False
        self._waiters.wake(1)

    def locked(self) -> bool:
        return self._taken

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *raised: object) -> None:
        self.release()


class _Condition:
    kernel: Kernel

    def __init__(self, lock: Any = None) -> None:
        self._lock = machine.Lock() if lock is None else lock
        self._waiters = _Waiters(self.kernel)
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *raised: object) -> None:
        self._lock.__exit__(*raised)

    def wait(self, timeout: float | None = None) -> bool:
        self._lock.release()
        try:
            return self._waiters.wait(_seconds(timeout))
        finally:
            self._lock.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        until = self.kernel.now + _seconds(timeout)
        while not (result := predicate()) and self.kernel.now < until:
            self.wait(until - self.kernel.now)
        return result

    def notify(self, n: int = 1) -> None:
        self._waiters.wake(n)

    def notify_all(self) -> None:
        self._waiters.wake()


class _SimpleQueue:
    kernel: Kernel

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiters = _Waiters(self.kernel)

    @classmethod
    def __class_getitem__(cls, item: object) -> type:
        return cls

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self.kernel.touch()
        self._items.append(item)
        self._waiters.wake(1)

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self.kernel.touch()
        until = self.kernel.now + _seconds(timeout) if block else 0.0
        while not self._items:
            left = until - self.kernel.now
            if not block or left <= 0:
                raise Empty
            self._waiters.wait(left)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items


class _Local:
    """`threading.local`, but for the threads of the simulation."""

    kernel: Kernel

    def __init__(self) -> None:
        object.__setattr__(self, "_of", {})

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = object.__getattribute__(self, "_of").setdefault(self.kernel.current, {})
        return fields

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields()[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._fields()[name] = value
