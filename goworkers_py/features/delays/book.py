"""The tasks in the persistence and those in the timers of this process, changed together.

In two forms: here for a persistence of one process, and in `shared_book` for one that several processes share. Both
write to the persistence first and change the timers second, so a kill between the two loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.strikes import Lock
from goworkers_py.core.values import NamedTuple
from goworkers_py.features.delays.contract import (
    BulkPersistence,
    CountsDues,
    Persistence,
    WithClock,
)
from goworkers_py.features.delays.task import DEAD_AT, HELD, DelayTask
from goworkers_py.features.delays.timers import Timers

# Tasks in one step of the persistence.
AT_ONCE = 500


class TaskFiring(NamedTuple):
    """A task that this process is to run. `claim` tells this firing from all others of the task."""

    task: DelayTask
    claim: str = ""


class Book(Protocol):
    def load(self, now: float) -> None:
        """Brings all tasks of the persistence into the timers, before the first firing."""

    def save(self, task: DelayTask, now: float) -> None:
        """Its due time was counted from `now`."""

    def save_many(self, tasks: Sequence[DelayTask], now: float) -> None: ...

    def delete(self, task_id: str) -> bool:
        """False when there was no such task, or when its run has begun: then it is not retried."""

    def move(self, task_id: str, due: float, now: float) -> bool:
        """Gives a task another due time, counted from `now`. False when there is none, or when its run has begun."""

    def take(self, tasks: Sequence[DelayTask], now: float) -> list[TaskFiring]:
        """The ones of these due tasks that this process is to run. The persistence's clock decides, and `now` is a
        guess of it. When it raises, it is called again with these tasks."""

    def end(self, firing: TaskFiring, again: DelayTask | None) -> None:
        """The run of the task has ended: it is deleted, or replaced by `again`. Changes nothing if the task was
        replaced or deleted meanwhile. When it raises, it is called again later."""

    def free(self, firing: TaskFiring) -> None:
        """The task was taken, and is not run by this process."""

    def look(self) -> None:
        """Called every few seconds: shows that this process lives, asks for the time, and finds what others did."""

    def leave(self) -> None: ...


def ask_time(persistence: WithClock, clock: Clock) -> float:
    """The persistence's clock shows at least this now."""
    asked_at = machine.awake_and_asleep()
    now = persistence.time()
    clock.synchronize(now, asked_at, machine.awake_and_asleep())
    return now


class OwnBook:
    """One lock is around each verb of the persistence and its change of the timers. So a push that replaces a task is
    either before the end of the run, which then deletes nothing, or after it."""

    def __init__(self, persistence: Persistence, timers: Timers, clock: Clock) -> None:
        self._persistence = persistence
        self._timers = timers
        self._clock = clock
        self._lock = Lock()
        self._counts_dues = isinstance(persistence, CountsDues)
        self._save, self._put = persistence.save, timers.put  # looked up once: a push into memory is short

    def load(self, now: float) -> None:
        with self._lock:
            self._timers.put_missing(self._persistence.list(), now)

    def save(self, task: DelayTask, now: float) -> None:
        with self._lock:
            if self._counts_dues:
                [task] = saved(self._persistence, [task], now)
            else:
                self._save(task)
            self._put(task)

    def save_many(self, tasks: Sequence[DelayTask], now: float) -> None:
        with self._lock:
            self._timers.put_many(saved(self._persistence, tasks, now))

    def delete(self, task_id: str) -> bool:
        with self._lock:
            task = self._timers.take_out(task_id)  # so that it cannot begin meanwhile
            try:
                self._persistence.delete(task_id)
            except BaseException:
                if task is not None:
                    self._timers.put(task)
                raise
            if task is None:
                self._timers.remove(task_id)  # of a run that has begun: its end changes nothing any more
            return task is not None

    def move(self, task_id: str, due: float, now: float) -> bool:
        with self._lock:
            known = self._timers.get(task_id)
            if known is None or not known.task_type:  # the record of that one cannot be read
                return False
            task = self._timers.take_out(task_id)  # so that it cannot begin meanwhile
            if task is None:
                return False
            try:
                [later] = saved(self._persistence, [moved(task, due)], now)
            except BaseException:
                self._timers.put(task)
                raise
            self._timers.put(later)
            return True

    def take(self, tasks: Sequence[DelayTask], now: float) -> list[TaskFiring]:
        if isinstance(self._persistence, WithClock):
            now = ask_time(self._persistence, self._clock)
            for task in tasks:
                if task.due > now:
                    self._timers.postpone(task)
            tasks = [task for task in tasks if task.due <= now]
        return [TaskFiring(task) for task in tasks]

    def end(self, firing: TaskFiring, again: DelayTask | None) -> None:
        task = firing.task
        with self._lock:
            if not self._timers.is_running(task):
                return
            if again is None:
                self._persistence.delete(task.id)
            else:
                [again] = saved(self._persistence, [again], self._clock.wall())
            self._timers.end(task, again)

    def free(self, firing: TaskFiring) -> None:
        self._timers.give_back(firing.task)

    def look(self) -> None:
        if isinstance(self._persistence, WithClock):
            ask_time(self._persistence, self._clock)

    def leave(self) -> None: ...


def moved(task: DelayTask, due: float) -> DelayTask:
    return task.with_notes({HELD: None, DEAD_AT: None}, due)


def saved(persistence: Persistence, tasks: Sequence[DelayTask], now: float) -> Sequence[DelayTask]:
    """The tasks as they are kept, with due times by the persistence's clock."""
    if isinstance(persistence, CountsDues):
        return persistence.save_from(tasks, now)
    if isinstance(persistence, BulkPersistence) and len(tasks) != 1:
        persistence.save_many(tasks)
    else:
        for task in tasks:
            persistence.save(task)
    return tasks
