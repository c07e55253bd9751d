"""The delay queue: tasks that run after a delay, on a time wheel, and outlive the process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from goworkers_py.config.moments import Delay, after
from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ArgumentError, ConfigError, WorkersError
from goworkers_py.core.strikes import Lock
from goworkers_py.features.delays.book import AT_ONCE, Book, ask_time
from goworkers_py.features.delays.contract import Closeable, OwnClock, Persistence, WithClock
from goworkers_py.features.delays.executors import Executors, finder
from goworkers_py.features.delays.held_tasks import HeldTasks
from goworkers_py.features.delays.machinery import DelaySettings, Machinery
from goworkers_py.features.delays.shared_book import book_of
from goworkers_py.features.delays.task import DelayTask, packed
from goworkers_py.features.delays.timers import Timers
from goworkers_py.features.delays.wheel import FEWEST_SLOTS
from goworkers_py.wire.payload import encodable

SHORTEST_TICK_S = 0.01
STOP_S = 25.0
# The delays that need no further look: a number of seconds up to thirty years.
_USUAL_S = 1e9

_STOPPED = "this delay queue was stopped: make another DelayQueue"
_DEFAULT: Any = object()
_new = tuple.__new__


class DelayQueue:
    """Runs tasks after a delay, in this process and without a daemon:

        queue = workers.DelayQueue({"remind": send_reminder})
        queue.start()
        queue.push(3600, "remind", {"user": 7})

    `executors` are functions of the parameters, by task type; docs/delay-queue.md tells the other forms. Tasks are kept
    in Redis, unless another `persistence` is given. A task begins at most one `tick` (seconds) after it is due, in one
    of `threads`. Tasks that became due while no process ran begin at most `late_per_s` a second.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        executors: Executors,
        persistence: Persistence = _DEFAULT,
        tick: float = 1.0,
        slots: int = 3600,
        threads: int = 10,
        late_per_s: float = 1000.0,
    ) -> None:
        if persistence is None:
            raise ConfigError("DelayQueue: persistence is None; workers.MemoryPersistence() keeps tasks in memory only")
        if tick < SHORTEST_TICK_S or not math.isfinite(tick):
            raise ConfigError(f"DelayQueue: tick must be {SHORTEST_TICK_S} s or more, is {tick!r}")
        if slots < FEWEST_SLOTS or threads < 1 or not late_per_s > 0:
            raise ConfigError(f"DelayQueue: needs {FEWEST_SLOTS} slots, a thread, and late_per_s above 0")
        self._persistence = _default_persistence() if persistence is _DEFAULT else persistence
        # Tests give another one, before the first push.
        self.clock = self._persistence.clock if isinstance(self._persistence, OwnClock) else Clock()
        self._settings = DelaySettings(tick, slots, threads, late_per_s)
        self._find = finder(executors)
        self._held = HeldTasks()
        self._lock = Lock()  # while this queue is opened, started or stopped
        self._timers: Timers | None = None
        self._book: Book | None = None
        self._machinery: Machinery | None = None
        self._stopped = False

    def start(self) -> None:
        """Reads all tasks from the persistence, and runs those that are due. Does nothing when it is called again."""
        book, timers = self._opened(), self._all_timers()
        with self._lock:
            if self._stopped:
                raise WorkersError(_STOPPED)
            if self._machinery is not None:
                return
            book.load(self.clock.wall())
            held = timers.held()
            self._machinery = Machinery(self._settings, timers, book, self._find, self.clock.wall, self._held)
            self._machinery.start()
        for task in held:  # without the lock: a function of `on_held` may call this queue
            self._held.tell(task)

    def push(self, delay: Delay, task_type: str, params: Any = None, id: str | None = None) -> str:  # noqa: A002
        """`queue.push(60, "remind", {"user": 7})` runs the task in a minute, and returns its id. A delay of 0 or
        below is now. The task is in the persistence when this returns; where it raises, nothing was pushed.

        A task of the same `id` is replaced. `params` is any value that JSON can hold.
        """
        book = self._book or self._opened()  # looked at here too: a push is short
        now = self.clock.at_latest()
        is_usual = type(delay) in (float, int) and 0 <= delay < _USUAL_S  # type: ignore[operator]
        due = now + delay if is_usual else max(now, after(delay, now))  # type: ignore[operator]
        if id is None:
            id = machine.token_hex(12)  # noqa: A001
        # A million pushes are a usual number here: so each of the next three takes half the time of a plain call.
        elif type(id) is not str or not id or not id.isascii():
            _id(id)
        if type(task_type) is not str or not task_type or not task_type.isascii():
            _type(task_type)
        book.save(_new(DelayTask, (id, due, task_type, packed(params), None)), now)
        return id

    def push_many(self, tasks: Iterable[tuple[Any, ...]]) -> list[str]:
        """`queue.push_many([(60, "remind", 7), (90, "remind", 8, "id-8")])` pushes many tasks at once: for each a tuple
        of what `push` takes. In steps of 500: where it raises, the tasks of earlier steps were pushed."""
        book, now = self._opened(), self.clock.at_latest()
        made = [_task(row, now) for row in tasks]
        for at in range(0, len(made), AT_ONCE):
            book.save_many(made[at : at + AT_ONCE], now)
        return [task.id for task in made]

    def cancel(self, id: str) -> bool:  # noqa: A002
        """Removes the task. False if there is none, or if its run has begun: it runs to its end, unretried."""
        return self._opened().delete(id)

    def move(self, id: str, delay: Delay) -> bool:  # noqa: A002
        """`queue.move(id, 300)`: the task is due in five minutes from now, whatever it was before. Also for a task that
        is held. False if there is none, or if its run has begun."""
        book, now = self._opened(), self.clock.at_latest()
        return book.move(id, max(now, after(delay, now)), now)

    def pending(self) -> list[DelayTask]:
        """The tasks of this process that have not ended, the first due first: those that wait, that run and that are
        held. `task.held` tells why a task is held."""
        return sorted(self._all_timers().all(), key=lambda task: task.due)

    def quantity(self, slot: int) -> int:
        """How many tasks are in a slot of the wheel, from 0 to `slots` - 1."""
        return self._all_timers().quantity(slot)

    def __len__(self) -> int:
        """How many tasks `pending` would return."""
        return len(self._all_timers())

    def on_held(self, function: Callable[[DelayTask], object]) -> Callable[[DelayTask], object]:
        """Decorator `@queue.on_held`: called with each task that will not run by itself: of an unknown type,
        unreadable, or failed for the last time. It is kept in the persistence."""
        self._held.functions.append(function)
        return function

    def stop(self, timeout: float = STOP_S) -> bool:
        """Begins no more tasks, and waits at most so many seconds for those that run. The others stay in the
        persistence. True when none runs any more."""
        if self._machinery is not None and self._machinery.runs_here:
            raise WorkersError("a task cannot stop its own delay queue, which waits for it: stop it in another thread")
        with self._lock:
            self._stopped, machinery = True, self._machinery
            if machinery is not None:
                ended = machinery.stop(timeout)
            else:
                ended = True
            if ended and isinstance(self._persistence, Closeable):
                self._persistence.close()
            self._book = None  # so that `push` looks at `_stopped`
            return ended

    # --- opened at the first use

    def _opened(self) -> Book:
        # Read without the lock first: during a stop, which holds the lock, a task that still runs may push and move.
        if (book := self._book) is not None:
            return book
        with self._lock:
            if self._stopped:
                raise WorkersError(_STOPPED)
            if self._book is None:
                self._synchronize()
                self._timers = Timers(self._settings.tick, self._settings.slots, self.clock.wall)
                self._book = book_of(self._persistence, self._timers, self.clock)
            return self._book

    def _all_timers(self) -> Timers:
        if self._timers is None:
            self._opened()
        assert self._timers is not None
        return self._timers

    def _synchronize(self) -> None:
        """From now on the time is counted by a clock that goes on while the machine sleeps, and that no step of this
        machine's wall clock changes."""
        if isinstance(self._persistence, WithClock):
            ask_time(self._persistence, self.clock)
        else:
            at = machine.awake_and_asleep()
            self.clock.synchronize(machine.time(), at, at)


def _default_persistence() -> Persistence:
    """In Redis, at PYWORKERS_BROKER or on this machine."""
    from goworkers_py.features.delays.redis import RedisPersistence

    return RedisPersistence()


def _task(row: tuple[Any, ...], now: float) -> DelayTask:
    delay, task_type, params, task_id = (*row, None, None)[:4] if len(row) < 4 else row
    made = machine.token_hex(12) if task_id is None else _id(task_id)
    return DelayTask(made, max(now, after(delay, now)), _type(task_type), packed(params))


def _id(given: str) -> str:
    if type(given) is not str or not given or not encodable(given):
        raise ArgumentError(f"the id of a task must be a text, is {given!r}")
    return given


def _type(given: str) -> str:
    if type(given) is not str or not given or not encodable(given):
        raise ArgumentError(f"the type of a task must be a text, is {given!r}")
    return given
