"""The tasks in the persistence and those in the timers of this process, changed together.

In two forms: for a persistence of one process, and for one that several processes share, where each firing is claimed.
Both write to the persistence first and change the timers second, so a kill between the two loses nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from goworkers_py.brokers.contracts.persistence import BulkPersistence, Claims, Persistence, Shared
from goworkers_py.core.identity import new_identity
from goworkers_py.delays.timers import Timers
from goworkers_py.wire.delay_task import DEAD_AT, HELD, NEVER, DelayTask

# The claims of a process count for this long after it was heard of last.
LEASE_S = 30.0
# Tasks that other processes have pushed come into this wheel when they are due within this time.
HORIZON_S = 30.0
# Tasks in one step of the persistence.
AT_ONCE = 500


class Book(Protocol):
    def load(self, now: float) -> None:
        """Brings all tasks of the persistence into the timers, before the first firing."""

    def save(self, task: DelayTask) -> None: ...

    def save_many(self, tasks: Sequence[DelayTask]) -> None: ...

    def delete(self, task_id: str) -> bool:
        """False when there was no such task, or when it runs: then it is not retried."""

    def move(self, task_id: str, due: float) -> bool:
        """Gives a task another due time. False when there is none, or when it runs."""

    def take(self, tasks: Sequence[DelayTask], now: float) -> list[DelayTask]:
        """Those of these due tasks that this process is to run."""

    def end(self, task: DelayTask, again: DelayTask | None) -> None:
        """The run of the task has ended: it is deleted, or replaced by `again`. Changes nothing if the task was
        replaced or deleted meanwhile. When it raises, it is called again later."""

    def free(self, task: DelayTask) -> None:
        """The task was taken, and is not run by this process."""

    def look(self, now: float) -> None:
        """Called every few seconds: shows that this process lives, and finds what other processes did."""

    def leave(self) -> None: ...


def book_of(persistence: Persistence, timers: Timers) -> Book:
    claims = persistence.claims if isinstance(persistence, Shared) else None
    return OwnBook(persistence, timers) if claims is None else SharedBook(persistence, claims, timers)


class OwnBook:
    """One lock is around each verb of the persistence and its change of the timers. So a push that replaces a task is
    either before the end of the run, which then deletes nothing, or after it."""

    def __init__(self, persistence: Persistence, timers: Timers) -> None:
        self._persistence = persistence
        self._timers = timers
        self._lock = threading.Lock()
        self._save, self._put = persistence.save, timers.put  # looked up once: a push into memory is short

    def load(self, now: float) -> None:
        with self._lock:
            self._timers.put_missing(self._persistence.list(), now)

    def save(self, task: DelayTask) -> None:
        with self._lock:
            self._save(task)
            self._put(task)

    def save_many(self, tasks: Sequence[DelayTask]) -> None:
        with self._lock:
            _save_many(self._persistence, tasks)
            self._timers.put_many(tasks)

    def delete(self, task_id: str) -> bool:
        with self._lock:
            self._persistence.delete(task_id)
            return self._timers.remove(task_id) is not None

    def move(self, task_id: str, due: float) -> bool:
        with self._lock:
            task = self._timers.take_out(task_id)  # so that it cannot begin meanwhile
            if task is None:
                return False
            try:
                self._persistence.save(_moved(task, due))
            except BaseException:
                self._timers.put(task)
                raise
            self._timers.put(_moved(task, due))
            return True

    def take(self, tasks: Sequence[DelayTask], now: float) -> list[DelayTask]:
        return [*tasks]

    def end(self, task: DelayTask, again: DelayTask | None) -> None:
        with self._lock:
            if not self._timers.is_running(task):
                return
            if again is None:
                self._persistence.delete(task.id)
                self._timers.end(task)
            else:
                self._persistence.save(again)
                self._timers.put(again)

    def free(self, task: DelayTask) -> None:
        self._timers.give_back(task)

    def look(self, now: float) -> None: ...

    def leave(self) -> None: ...


class SharedBook:
    """What counts is in the persistence: the timers say only when to look. A firing whose task was moved, deleted or
    claimed elsewhere is dropped, and `look` brings the task back into the timers if it is still there."""

    def __init__(self, persistence: Persistence, claims: Claims, timers: Timers) -> None:
        self._persistence = persistence
        self._claims = claims
        self._timers = timers
        self._owner = new_identity()

    def load(self, now: float) -> None:
        self._claims.beat(self._owner, LEASE_S)
        self._timers.put_missing(self._persistence.list(), now)

    def save(self, task: DelayTask) -> None:
        self._persistence.save(task)
        self._timers.put(task)

    def save_many(self, tasks: Sequence[DelayTask]) -> None:
        _save_many(self._persistence, tasks)
        self._timers.put_many(tasks)

    def delete(self, task_id: str) -> bool:
        runs = self._timers.runs(task_id)
        was_kept = self._persistence.delete(task_id)
        was_here = self._timers.remove(task_id) is not None
        return not runs and (was_here if was_kept is None else was_kept)

    def move(self, task_id: str, due: float) -> bool:
        [*found] = self._claim([task_id], NEVER)  # so that it cannot begin meanwhile
        if not found or not found[0].task_type:
            self._claims.end(self._owner, (), (), [task.id for task in found])
            return False
        moved = _moved(found[0], due)
        self._claims.end(self._owner, (), [moved], ())
        self._timers.put(moved)
        return True

    def take(self, tasks: Sequence[DelayTask], now: float) -> list[DelayTask]:
        ids = [task.id for task in tasks]
        found = {task.id: task for task in self._claim(ids, now)}
        taken = []
        for task in tasks:
            current = found.get(task.id)
            if current is None:
                self._timers.end(task)
            elif current.held:  # a newer release has replaced it meanwhile: not to be touched
                self._claims.end(self._owner, (), (), [task.id])
                self._timers.put(current)
            elif not self._timers.renew(task, current):  # cancelled or replaced just now
                self._claims.end(self._owner, (), (), [task.id])
            else:
                taken.append(current)
        return taken

    def end(self, task: DelayTask, again: DelayTask | None) -> None:
        if again is None:
            self._claims.end(self._owner, [task.id], (), ())
            self._timers.end(task)
            return
        self._claims.end(self._owner, (), [again], ())
        if self._timers.is_running(task):
            self._timers.put(again)

    def free(self, task: DelayTask) -> None:
        self._claims.end(self._owner, (), (), [task.id])
        self._timers.give_back(task)

    def look(self, now: float) -> None:
        self._claims.beat(self._owner, LEASE_S)
        coming = dict(self._claims.coming(now + HORIZON_S))
        wanted = [task_id for task_id, due in coming.items() if self._is_news(task_id, due)]
        for at in range(0, len(wanted), AT_ONCE):
            found = self._claims.read(wanted[at : at + AT_ONCE])
            for task in found:
                known = self._timers.get(task.id)
                if known is not None and known.due != task.due and not self._timers.is_running(known):
                    self._timers.remove(task.id)
            self._timers.put_missing(found, now)
        for task in self._timers.held():
            if task.due != NEVER and task.id not in coming:
                self._timers.remove(task.id)  # another process has run it

    def leave(self) -> None:
        self._claims.leave(self._owner)

    def _claim(self, ids: Sequence[str], now: float) -> Sequence[DelayTask]:
        found = self._claims.take(self._owner, ids, now)
        if not found:  # perhaps because this process has no lease: it stood still, or was not started
            self._claims.beat(self._owner, LEASE_S)
            found = self._claims.take(self._owner, ids, now)
        return found

    def _is_news(self, task_id: str, due: float) -> bool:
        known = self._timers.get(task_id)
        return known is None or (known.due != due and not self._timers.is_running(known))


def _moved(task: DelayTask, due: float) -> DelayTask:
    return task.with_notes({HELD: None, DEAD_AT: None}, due)


def _save_many(persistence: Persistence, tasks: Sequence[DelayTask]) -> None:
    if isinstance(persistence, BulkPersistence):
        persistence.save_many(tasks)
    else:
        for task in tasks:
            persistence.save(task)
