"""The tasks of a delay queue in this process: those in the wheel, those that are due, and those that are held."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from goworkers_py.core import machine
from goworkers_py.core.strikes import Lock
from goworkers_py.features.delays.task import NEVER, DelayTask
from goworkers_py.features.delays.wheel import Wheel


class Timers:
    """Safe to share. A task is in one of four places: the wheel, a line of due tasks, `running`, or `held`. A task in
    `running` was taken out of its line; until it is in `begun` too, it can still be cancelled and moved.

    There are two lines: one for tasks in time, and one for those that became due while no process looked at them.
    """

    def __init__(self, tick: float, slots: int, now: Callable[[], float]) -> None:
        lock = machine.Lock()
        self._lock = Lock(lock)
        self._more = machine.Condition(lock)  # a due task was added
        self._now = now
        self._wheel: Wheel[tuple[Any, ...]] = Wheel(tick, slots, now())
        self._tick = tick
        self._next_tick_at = now() + tick  # at the latest
        # A task in a line counts only while `_due` has it: so a cancelled one need not be searched for in its line.
        self._due: dict[str, DelayTask] = {}
        self._lines: tuple[deque[DelayTask], deque[DelayTask]] = (deque(), deque())
        self._running: dict[str, DelayTask] = {}
        self._begun: set[str] = set()
        self._held: dict[str, DelayTask] = {}
        self._late_after_s = max(1.0, 2 * tick)

    def put(self, task: DelayTask) -> None:
        """Replaces the task of this id, also one that runs: the end of its run changes nothing any more."""
        key, due = task.id, task.due
        with self._lock:
            if self._due or self._running or self._held:
                self._forget(key)
            if due == NEVER:
                self._wheel.remove(key)
                self._held[key] = task
            elif due <= self._next_tick_at and due <= self._now():
                self._wheel.remove(key)
                self._add_due([task], due)
            elif not self._wheel.insert(tuple(task)):
                self._add_due([task], due)

    def put_many(self, tasks: Iterable[DelayTask]) -> None:
        for task in tasks:
            self.put(task)

    def put_missing(self, tasks: Iterable[DelayTask], now: float) -> None:
        """Adds those of which this process has no task of the same id. `now` tells which of them are late."""
        with self._lock:
            due = []
            for task in tasks:
                if self._find(task.id) is not None:
                    continue
                if task.due == NEVER:
                    self._held[task.id] = task
                elif not self._wheel.insert(tuple(task)):
                    due.append(task)
            due.sort(key=lambda task: task.due)
            self._add_due(due, now)

    def remove(self, key: str) -> DelayTask | None:
        """The task that was removed. None for one that has begun: the end of its run changes nothing any more."""
        with self._lock:
            found = self._wheel.remove(key)
            return DelayTask(*found) if found is not None else self._forget(key)

    def take_out(self, key: str) -> DelayTask | None:
        """The task that was removed, which does not begin any more. None for one that has begun, which goes on."""
        with self._lock:
            found = self._wheel.remove(key)
            if found is not None:
                return DelayTask(*found)
            return None if key in self._begun else self._forget(key)

    def get(self, key: str) -> DelayTask | None:
        with self._lock:
            return self._find(key)

    def tick(self, now: float) -> None:
        with self._lock:
            self._next_tick_at = now + self._tick
            if due := self._wheel.advance(now):
                self._add_due([DelayTask(*each) for each in due], now)

    def take(self, most: int, most_late: int, wait_s: float) -> tuple[list[DelayTask], list[DelayTask]]:
        """At most so many due tasks together, those in time and the late ones; waits until there is one. They run from
        now on."""
        with self._lock:
            taken = self._taken(most, most_late)
            if not any(taken):
                self._more.wait(wait_s)
                taken = self._taken(most, most_late)
            return taken

    def wake(self) -> None:
        """Ends the wait of `take`."""
        with self._lock:
            self._more.notify_all()

    def is_running(self, task: DelayTask) -> bool:
        return self._running.get(task.id) is task  # read without the lock: one step

    def has_begun(self, key: str) -> bool:
        return key in self._begun  # read without the lock: one step

    def begin(self, task: DelayTask) -> bool:
        """The task is run from now on. False when it was replaced, cancelled or moved since it was taken."""
        with self._lock:
            if self._running.get(task.id) is not task:
                return False
            self._begun.add(task.id)
            return True

    def end(self, task: DelayTask, again: DelayTask | None = None) -> None:
        """The run of the task has ended, and `again` waits in its place. Changes nothing if it was replaced or
        cancelled meanwhile."""
        with self._lock:
            if not self._end(task) or again is None:
                return
            if again.due == NEVER:
                self._held[again.id] = again
            elif not self._wheel.insert(tuple(again)):
                self._add_due([again], again.due)

    def postpone(self, task: DelayTask) -> None:
        """The task was taken before it was due, because the clock was wrong, and waits again."""
        with self._lock:
            if not self._end(task):
                return
            # The wheel may be ahead of a clock that was set back: then it would call each task due.
            self._add_due([DelayTask(*each) for each in self._wheel.advance(self._now())], self._now())
            if not self._wheel.insert(tuple(task)):
                self._add_due([task], task.due)

    def renew(self, task: DelayTask, current: DelayTask) -> bool:
        """The task that runs is `current`, as the persistence has it."""
        with self._lock:
            # Not `is not`: when a claim is asked for once more, `current` of the first time is there, which is equal.
            if self._running.get(task.id) != task:
                return False
            self._running[task.id] = current
            return True

    def hold(self, task: DelayTask, held: DelayTask) -> bool:
        """The task was taken, and waits as `held` for people. False when it was replaced or cancelled meanwhile."""
        with self._lock:
            if not self._end(task):
                return False
            self._held[task.id] = held
            return True

    def held(self) -> list[DelayTask]:
        with self._lock:
            return [*self._held.values()]

    def give_back(self, task: DelayTask) -> None:
        """The task was taken and did not run."""
        with self._lock:
            if self._end(task):
                self._add_due([task], task.due)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def any_late(self) -> bool:
        return bool(self._lines[1])

    def quantity(self, slot: int) -> int:
        with self._lock:
            return self._wheel.quantity(slot)

    def all(self) -> list[DelayTask]:
        with self._lock:
            waiting = [DelayTask(*each) for each in self._wheel]
            return [*waiting, *self._due.values(), *self._running.values(), *self._held.values()]

    def __len__(self) -> int:
        with self._lock:
            return len(self._wheel) + len(self._due) + len(self._running) + len(self._held)

    # --- with the lock

    def _add_due(self, tasks: list[DelayTask], now: float) -> None:
        """In the order of their due times."""
        in_time, late = self._lines
        for task in tasks:
            self._due[task.id] = task
            (late if task.due < now - self._late_after_s else in_time).append(task)
        if tasks:
            self._more.notify()

    def _taken(self, most: int, most_late: int) -> tuple[list[DelayTask], list[DelayTask]]:
        in_time = self._first_of(self._lines[0], most)
        return in_time, self._first_of(self._lines[1], min(most - len(in_time), most_late))

    def _first_of(self, line: deque[DelayTask], most: int) -> list[DelayTask]:
        taken: list[DelayTask] = []
        while line and len(taken) < most:
            task = line.popleft()
            if self._due.get(task.id) is task:
                del self._due[task.id]
                self._running[task.id] = task
                taken.append(task)
        return taken

    def _find(self, key: str) -> DelayTask | None:
        waiting = self._wheel.get(key)
        if waiting is not None:
            return DelayTask(*waiting)
        return self._due.get(key) or self._running.get(key) or self._held.get(key)

    def _end(self, task: DelayTask) -> bool:
        if self._running.get(task.id) is not task:
            return False
        del self._running[task.id]
        self._begun.discard(task.id)
        return True

    def _forget(self, key: str) -> DelayTask | None:
        taken = self._running.pop(key, None)
        if key in self._begun:
            self._begun.remove(key)
            taken = None
        return taken or self._due.pop(key, None) or self._held.pop(key, None)
