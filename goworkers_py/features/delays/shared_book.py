"""The tasks in a persistence that several processes share, and those in the timers of this process.

Each firing is claimed by one of the processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.identity import new_identity
from goworkers_py.core.strikes import Lock
from goworkers_py.features.delays.book import AT_ONCE, Book, OwnBook, TaskFiring, ask_time, moved, saved
from goworkers_py.features.delays.contract import Claims, OwnClock, Persistence, SharedClaims, WithClock
from goworkers_py.features.delays.task import NEVER, DelayTask
from goworkers_py.features.delays.timers import Timers

# The claims of a process count for this long after it was heard of last.
LEASE_S = 30.0
# Tasks that other processes have pushed come into this wheel when they are due within this time.
HORIZON_S = 30.0


def book_of(persistence: Persistence, timers: Timers, clock: Clock) -> Book:
    claims = persistence.claims if isinstance(persistence, SharedClaims) else None
    if claims is None:
        return OwnBook(persistence, timers, clock)
    return SharedBook(persistence, claims, timers, clock)


class SharedBook:
    """The persistence decides: the timers say only when to look. A firing whose task was moved, deleted or
    claimed elsewhere is dropped, and `look` brings the task back into the timers if it is still there.

    Each firing has a claim of its own. So the end of a run changes nothing of a later one of the same task. A claim
    whose reply was lost is asked for once more; and where this process did not go on with it, its next firing has it.
    """

    def __init__(self, persistence: Persistence, claims: Claims, timers: Timers, clock: Clock) -> None:
        self._persistence = persistence
        self._claims = claims
        self._timers = timers
        self._clock = clock
        # Asked for its time where its other verbs do not tell that.
        self._to_ask = (
            persistence if isinstance(persistence, WithClock) and not isinstance(persistence, OwnClock) else None
        )
        self._owner = new_identity()
        self._claiming = Lock()  # so that no firing comes between the two steps of a move
        self._claim = new_claim()  # with that lock; another one after each answer
        self._beaten_at = -LEASE_S  # by a clock without steps; each change is one step

    def load(self, now: float) -> None:
        self._beat()
        self._timers.put_missing(self._persistence.list(), now)

    def save(self, task: DelayTask, now: float) -> None:
        self.save_many([task], now)

    def save_many(self, tasks: Sequence[DelayTask], now: float) -> None:
        self._timers.put_many(saved(self._persistence, tasks, now))

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

    def move(self, task_id: str, due: float, now: float) -> bool:
        with self._claiming:
            here = self._timers.take_out(task_id)  # so that it cannot begin meanwhile
            if here is None and self._timers.has_begun(task_id):
                return False
            try:
                later = self._move(task_id, due, now)
            except BaseException:
                self._put_back(here)
                raise
            if later is None:
                self._put_back(here)
                return False
            self._timers.put(later)
            return True

    def take(self, tasks: Sequence[DelayTask], now: float) -> list[TaskFiring]:
        with self._claiming:
            claim, claimed = self._claimed([task.id for task in tasks], now)
        found = {task.id: task for task in claimed}
        if len(found) < len(tasks):
            self._ask()
        taken = []
        for task in tasks:
            current = found.get(task.id)
            if current is None and task.due > self._clock.wall():
                self._timers.postpone(task)
            elif current is None:
                self._timers.end(task)
            elif current.held:  # a newer release has replaced it meanwhile: not to be touched
                self._claims.end(self._owner, claim, (), (), [task.id])
                self._timers.end(task, current)
            elif not self._timers.renew(task, current):  # cancelled or replaced just now
                self._claims.end(self._owner, claim, (), (), [task.id])
            else:
                taken.append(TaskFiring(current, claim))
        return taken

    def end(self, firing: TaskFiring, again: DelayTask | None) -> None:
        done, retried = ([firing.task.id], ()) if again is None else ((), [again])
        now = self._clock.wall()  # of this try to tell the end: the time since the run counts for the retry
        kept = self._claims.end(self._owner, firing.claim, done, retried, (), now)
        # None is kept where the claim did not count any more: the task is that of another process.
        self._timers.end(firing.task, kept[0] if kept else None)

    def free(self, firing: TaskFiring) -> None:
        self._claims.end(self._owner, firing.claim, (), (), [firing.task.id])
        self._timers.give_back(firing.task)

    def look(self) -> None:
        self._beat()
        self._ask()
        now = self._clock.wall()
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
        # The server was away, or this process stood still. The lease of another one that lives may have ended before
        # that of this one: the beat gives it another.
        if machine.awake_and_asleep() - self._beaten_at > LEASE_S / 2:
            self._beat()
        found = self._claims.take(self._owner, claim, ids, now)
        if not found:  # perhaps because this process has no lease: it stood still, or was not started
            self._beat()
            found = self._claims.take(self._owner, claim, ids, now)
        self._claim = new_claim()
        return claim, found

    def _move(self, task_id: str, due: float, now: float) -> DelayTask | None:
        claim, found = self._claimed([task_id], NEVER)
        if not found:
            return None
        if not found[0].task_type:  # its record cannot be read
            self._claims.end(self._owner, claim, (), (), [task_id])
            return None
        kept = self._claims.end(self._owner, claim, (), [moved(found[0], due)], (), now)
        return kept[0] if kept else None  # None: it was replaced just now

    # ---

    def _beat(self) -> None:
        asked_at = machine.awake_and_asleep()
        self._claims.beat(self._owner, LEASE_S)
        self._beaten_at = asked_at

    def _ask(self) -> None:
        if self._to_ask is not None:
            ask_time(self._to_ask, self._clock)

    def _put_back(self, task: DelayTask | None) -> None:
        if task is not None:  # and leaves one that has been pushed under its id meanwhile
            self._timers.put_missing([task], task.due)

    def _is_news(self, task_id: str, due: float) -> bool:
        known = self._timers.get(task_id)
        return known is None or (known.due != due and not self._timers.is_running(known))


def new_claim() -> str:
    return machine.token_hex(8)
