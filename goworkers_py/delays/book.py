"""The tasks in the persistence and those in the timers of this process, changed together.

In two forms: for a persistence of one process, and for one that several processes share, where each firing is claimed.
Both write to the persistence first and change the timers second, so a kill between the two loses nothing.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol

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


class Firing(NamedTuple):
    """A task that this process is to run. `claim` tells this firing from all others of the task."""

    task: DelayTask
    claim: str = ""


class Book(Protocol):
    def load(self, now: float) -> None:
        """Brings all tasks of the persistence into the timers, before the first firing."""

    def save(self, task: DelayTask) -> None: ...

    def save_many(self, tasks: Sequence[DelayTask]) -> None: ...

    def delete(self, task_id: str) -> bool:
        """False when there was no such task, or when its run has begun: then it is not retried."""

    def move(self, task_id: str, due: float) -> bool:
        """Gives a task another due time. False when there is none, or when its run has begun."""

    def take(self, tasks: Sequence[DelayTask], now: float) -> list[Firing]:
        """Those of these due tasks that this process is to run. When it raises, it is called again with these tasks."""

    def end(self, firing: Firing, again: DelayTask | None) -> None:
        """The run of the task has ended: it is deleted, or replaced by `again`. Changes nothing if the task was
        replaced or deleted meanwhile. When it raises, it is called again later."""

    def free(self, firing: Firing) -> None:
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

    def move(self, task_id: str, due: float) -> bool:
        with self._lock:
            known = self._timers.get(task_id)
            if known is None or not known.task_type:  # the record of that one cannot be read
                return False
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

    def take(self, tasks: Sequence[DelayTask], now: float) -> list[Firing]:
        return [Firing(task) for task in tasks]

    def end(self, firing: Firing, again: DelayTask | None) -> None:
        task = firing.task
        with self._lock:
            if not self._timers.is_running(task):
                return
            if again is None:
                self._persistence.delete(task.id)
            else:
                self._persistence.save(again)
            self._timers.end(task, again)

    def free(self, firing: Firing) -> None:
        self._timers.give_back(firing.task)

    def look(self, now: float) -> None: ...

    def leave(self) -> None: ...


class SharedBook:
    """What counts is in the persistence: the timers say only when to look. A firing whose task was moved, deleted or
    claimed elsewhere is dropped, and `look` brings the task back into the timers if it is still there.

    Each firing has a claim of its own. So the end of a run changes nothing of a later one of the same task. A claim
    whose reply was lost is asked for once more; and where this process did not go on with it, its next firing has it.
    """

    def __init__(self, persistence: Persistence, claims: Claims, timers: Timers) -> None:
        self._persistence = persistence
        self._claims = claims
        self._timers = timers
        self._owner = new_identity()
        self._claiming = threading.Lock()  # so that no firing comes between the two steps of a move
        self._claim = new_claim()  # with that lock; another one after each answer

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
        here = self._timers.take_out(task_id)  # so that it cannot begin meanwhile
        has_begun = here is None and self._timers.has_begun(task_id)
        try:
            was_free = self._claims.cancel(self._owner, task_id)
        except BaseException:
            self._put_back(here)
            raise
        self._timers.remove(task_id)
        return was_free and not has_begun

    def move(self, task_id: str, due: float) -> bool:
        with self._claiming:
            here = self._timers.take_out(task_id)  # so that it cannot begin meanwhile
            if here is None and self._timers.has_begun(task_id):
                return False
            try:
                moved = self._move(task_id, due)
            except BaseException:
                self._put_back(here)
                raise
            if moved is None:
                self._put_back(here)
                return False
            self._timers.put(moved)
            return True

    def take(self, tasks: Sequence[DelayTask], now: float) -> list[Firing]:
        with self._claiming:
            claim, claimed = self._claimed([task.id for task in tasks], now)
        found = {task.id: task for task in claimed}
        taken = []
        for task in tasks:
            current = found.get(task.id)
            if current is None:
                self._timers.end(task)
            elif current.held:  # a newer release has replaced it meanwhile: not to be touched
                self._claims.end(self._owner, claim, (), (), [task.id])
                self._timers.end(task, current)
            elif not self._timers.renew(task, current):  # cancelled or replaced just now
                self._claims.end(self._owner, claim, (), (), [task.id])
            else:
                taken.append(Firing(current, claim))
        return taken

    def end(self, firing: Firing, again: DelayTask | None) -> None:
        done, saved = ([firing.task.id], ()) if again is None else ((), [again])
        self._claims.end(self._owner, firing.claim, done, saved, ())
        self._timers.end(firing.task, again)

    def free(self, firing: Firing) -> None:
        self._claims.end(self._owner, firing.claim, (), (), [firing.task.id])
        self._timers.give_back(firing.task)

    def look(self, now: float) -> None:
        self._claims.beat(self._owner, LEASE_S)
        coming = dict(self._claims.coming(now + HORIZON_S))
        wanted = [task_id for task_id, due in coming.items() if self._is_news(task_id, due)]
        for at in range(0, len(wanted), AT_ONCE):
            found = self._claims.read(wanted[at : at + AT_ONCE])
            for task in found:
                known = self._timers.get(task.id)
                if known is not None and known.due != task.due:
                    self._timers.take_out(task.id)  # not one that has begun
            self._timers.put_missing(found, now)
        for task in self._timers.held():
            if task.due != NEVER and task.id not in coming:
                self._timers.remove(task.id)  # another process has run it

    def leave(self) -> None:
        self._claims.leave(self._owner)

    # --- with the lock `_claiming`

    def _claimed(self, ids: Sequence[str], now: float) -> tuple[str, Sequence[DelayTask]]:
        claim = self._claim  # the same as before where that raised: perhaps only its reply was lost
        found = self._claims.take(self._owner, claim, ids, now)
        if not found:  # perhaps because this process has no lease: it stood still, or was not started
            self._claims.beat(self._owner, LEASE_S)
            found = self._claims.take(self._owner, claim, ids, now)
        self._claim = new_claim()
        return claim, found

    def _move(self, task_id: str, due: float) -> DelayTask | None:
        claim, found = self._claimed([task_id], NEVER)
        if not found:
            return None
        if not found[0].task_type:  # its record cannot be read
            self._claims.end(self._owner, claim, (), (), [task_id])
            return None
        moved = _moved(found[0], due)
        self._claims.end(self._owner, claim, (), [moved], ())
        return moved

    # ---

    def _put_back(self, task: DelayTask | None) -> None:
        if task is not None:  # and leaves one that has been pushed under its id meanwhile
            self._timers.put_missing([task], task.due)

    def _is_news(self, task_id: str, due: float) -> bool:
        known = self._timers.get(task_id)
        return known is None or (known.due != due and not self._timers.is_running(known))


def new_claim() -> str:
    return secrets.token_hex(8)


def _moved(task: DelayTask, due: float) -> DelayTask:
    return task.with_notes({HELD: None, DEAD_AT: None}, due)


def _save_many(persistence: Persistence, tasks: Sequence[DelayTask]) -> None:
    if isinstance(persistence, BulkPersistence):
        persistence.save_many(tasks)
    else:
        for task in tasks:
            persistence.save(task)
