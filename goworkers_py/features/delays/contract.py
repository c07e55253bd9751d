"""The contract of a delay queue's persistence: where its tasks outlive the process.

Three verbs are enough. The rest is optional, and found by its name:

- `save_many` and `delete_many`, for speed;
- `time`, where the server has a better clock than this machine, and `save_from`, which counts due times by it;
- `clock`, which its calls synchronise with that clock by themselves;
- `close`, called at the end of `DelayQueue.stop`;
- `claims`, where several processes may use one persistence at the same time.

A persistence without `claims` belongs to one process. Its verbs are never called by two threads at once. One with
`claims` is called by many threads. Any exception of a verb means that it was not done: an exception of `save` refuses
the push. `goworkers_py.testing.persistence` has the suite of tests that each persistence must pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, runtime_checkable

from goworkers_py.core.clock import Clock
from goworkers_py.features.delays.task import DelayTask


class Persistence(Protocol):
    """Keeps the tasks of a delay queue. Any object with these three methods will do."""

    def save(self, task: DelayTask) -> None:
        """Keeps the task, in one step: after a crash it is there as a whole or not at all. It replaces a task of the
        same id. `task.to_json()` is a text to keep, and `DelayTask.from_json(text)` reads it."""

    def list(self) -> Iterable[DelayTask]:
        """All tasks. One whose record cannot be read is kept, and `DelayTask.unreadable(id, why)` stands for it."""

    def delete(self, task_id: str) -> bool | None:
        """Removes the task. Does nothing if there is none of this id. May tell whether there was one."""


@runtime_checkable
class BulkPersistence(Protocol):
    def save_many(self, tasks: Sequence[DelayTask]) -> None:
        """All or none of them."""


@runtime_checkable
class WithClock(Protocol):
    def time(self) -> float:
        """Epoch seconds. It is asked again and again, and before each firing of a persistence without `claims`. In
        between, a clock that no step of the time changes counts on."""


@runtime_checkable
class CountsDues(Protocol):
    def save_from(self, tasks: Sequence[DelayTask], now: float) -> Sequence[DelayTask]:
        """Saves the tasks, all or none of them, and returns them as they are kept. Their due times were counted from
        `now`, which is a guess of `time()`. Each is kept as much later as `time()` in this step is later than `now`."""


@runtime_checkable
class OwnClock(Protocol):
    @property
    def clock(self) -> Clock:
        """Each call of `time`, and of the other verbs that learn the time, synchronises it."""


@runtime_checkable
class Closeable(Protocol):
    def close(self) -> None: ...


class Claims(Protocol):
    """Lets several processes share a persistence: each firing is claimed by one of them.

    An owner is a process with a lease, judged by one clock for all of them. A claim is a text that no other firing has.
    It counts while its owner has its lease. `Persistence.save` and `delete` end a claim on the task, so that the end of
    the older run changes nothing.
    """

    def beat(self, owner: str, lease_s: float) -> None:
        """The owner has a lease from now on, for `lease_s`. Where nothing was heard of this owner for more than half of
        that, or of any owner, leases that have ended since then are no proof of a death: they last for another
        `lease_s`."""

    def leave(self, owner: str) -> None:
        """The owner has no lease any more."""

    def take(self, owner: str, claim: str, ids: Sequence[str], now: float) -> Sequence[DelayTask]:
        """Claims, in one step, those of the tasks that are there, are due by `now`, and on which no other owner with a
        lease has a claim. Returns them as they are kept. Where the persistence has a clock (`time`), they must be due
        by that clock in this step too, because `now` is a guess. An infinite `now` takes tasks that are not due. An
        owner without a lease gets none. This owner's own claim on a task is replaced: it asks again only where it does
        not run the task, so the reply of that claim was lost."""

    def end(
        self,
        owner: str,
        claim: str,
        done: Collection[str],
        again: Sequence[DelayTask],
        free: Collection[str],
        now: float | None = None,
    ) -> Sequence[DelayTask]:
        """After runs: deletes the tasks `done`, saves those of `again`, which are claimed no more, and frees those of
        `free`, which were not run. In one step, and only those on which the owner still has this claim. Returns the
        saved ones as they are kept: their due times were counted from `now`, see `save_from`; None leaves them."""

    def cancel(self, owner: str, task_id: str) -> bool:
        """Deletes the task, with a claim on it. True when it was there and no other owner with a lease had a claim on
        it: otherwise it runs there to its end, which changes nothing."""

    def coming(self, until: float) -> Iterable[tuple[str, float]]:
        """The id and the due time of all tasks that are due by then, claimed or not, the first due first."""

    def read(self, ids: Sequence[str]) -> Sequence[DelayTask]:
        """The tasks that are there."""


@runtime_checkable
class SharedClaims(Protocol):
    @property
    def claims(self) -> Claims | None: ...
