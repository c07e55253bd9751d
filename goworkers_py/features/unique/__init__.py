"""Unique jobs: a lock keeps a second job with the same class and key out.

A push takes the lock in the step that pushes the job (`push`); a push that finds it taken does what `on_conflict` says.
The lock is in the payload of the job (`payload`), so that whatever ends the job frees it in the same step (`end`). A
job that waits holds its lock for the time of `unique_for`. While it runs, the lock names the process as its owner and
lasts as long as the run (`service`). Some options make a job ask for its lock again before it begins (`run`).

In the engine: `core.holder` (the job that has something), `admin.missing_jobs`, and the error DuplicateJob.

- `lock`: the values. `uniqueness`: the name of the lock, from the class and the key. `effects`: free, keep or own it.
- `job_options`: `unique_for=` and its relatives of `@job`.
- `contract`: what a broker must do; `redis`, `redis_part`, `lua/`, `memory`: brokers that do it.
- `holders`: whether the job of a lock is still there, for a push that meets the lock of a deleted job.
- `admin`: verbs of the inspector. `commands`, `views`, `findings`, `access`: people.

For users: docs/unique-jobs.md and docs/not-twice.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    import click

    from goworkers_py.admin.inspector import Inspector
    from goworkers_py.brokers.contracts.admin import Checks
    from goworkers_py.brokers.memory.parts import MemoryPart
    from goworkers_py.brokers.memory.state import State
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess
    from goworkers_py.features.in_process import InProcess, WorkerProcess
    from goworkers_py.features.parts import Moves, Pushes
    from goworkers_py.features.unique.contract import Locks
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.web.site.table import FeaturePages


class UniqueFeature(Feature):
    """A lock keeps a second job with the same arguments out."""

    contract, kept = "Locks", "locks of unique jobs"
    options = "UniqueOptions"
    verbs = "LockVerbs"
    needs: ClassVar = {"unique": "0.4.0"}
    push_marks = frozenset({"unique_for", "unique_by", "unique_until", "on_conflict"})

    def moves(self) -> Moves:
        from goworkers_py.features.unique.end import MOVES

        return MOVES

    def pushes(self) -> Pushes:
        from goworkers_py.features.unique.push import PUSHES

        return PUSHES

    def in_process(self, process: WorkerProcess) -> InProcess | None:
        from goworkers_py.features.unique.contract import Locks
        from goworkers_py.features.unique.run import UniqueRuns

        locks = process.broker.part(Locks)
        return None if locks is None else UniqueRuns(process, locks)

    def part(self, family: str) -> Callable[[Any], Locks] | None:
        if family == "redis":
            from goworkers_py.features.unique.redis import RedisLocks

            return lambda broker: RedisLocks(broker.connections, broker.keys, broker.begins)
        if family == "memory":
            from goworkers_py.features.unique.memory import MemoryLocks

            return lambda broker: MemoryLocks(broker.state)
        return None

    # --- brokers

    def memory(self) -> Callable[[State], MemoryPart]:
        from goworkers_py.features.unique.memory import LockTable

        return LockTable

    def redis(self) -> RedisPart:
        from goworkers_py.features.unique.redis_part import part

        return part()

    # --- people

    commands = ("locks",)
    members_of_arguments = ("lock",)

    def command(self, name: str) -> click.Command:
        from goworkers_py.features.unique.commands import locks

        return locks

    def access(self) -> FeatureAccess:
        from goworkers_py.features.unique.access import ACCESS

        return ACCESS

    def checks(self, inspector: Inspector, work: OurWork | None) -> Checks:
        from goworkers_py.features.unique.findings import lock_findings

        return {"locks": lambda: lock_findings(inspector)}

    def pages(self) -> FeaturePages:
        from goworkers_py.features.unique.views import PAGES

        return PAGES


FEATURE = UniqueFeature()
