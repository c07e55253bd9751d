"""Delay queues: tasks that are due at a time, in any program and without a daemon.

A delay queue (`api`) keeps its tasks in a persistence and in the timers of this process (`timers`): a time wheel
(`wheel`), two lines of tasks that are due, those that run, and those that are held for people. `book` changes both
together: the persistence first, so that a kill loses nothing. `shared_book` does it where several processes share the
persistence, and claims each firing. After the start there are these threads (`machinery`): one turns the wheel; the
dispatcher takes due tasks and claims them (`dispatcher`); the workers run them (`pool`, `runs`, `executors`) and report
their ends (`ends`); the keeper renews the lease, finds tasks of other processes, and reports again what the persistence
has refused (`keeper`). `held_tasks` tells people of tasks that do not run by themselves any more.

- `task`: the value, and its record.
- `contract`: what a persistence must do, and what it may do besides. `testing`: the suite for each of them, public as
  `goworkers_py.testing.persistence`.
- `memory`: it is lost with the process. `sqlite`: a file for the processes of one machine. `redis`: any number of
  processes share it; `redis_scripts` calls the scripts of `lua/`, and learns the time of the server. `redis_lists`: the
  layout of a Go program. `redis_part`: the keys; `access`: the access rules.

In the engine: nothing. The broker of jobs has no part of it: a delay queue has a connection of its own, so `contract`,
`redis` and `memory` are about its persistence here, and no parts of brokers as in other folders.

For users: docs/delay-queue.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goworkers_py.features.feature import Feature

if TYPE_CHECKING:
    from goworkers_py.brokers.redis.parts import RedisPart
    from goworkers_py.brokers.redis.server.access import FeatureAccess


class DelaysFeature(Feature):
    """Tasks are due at a time, in any program, and a persistence keeps them."""

    def redis(self) -> RedisPart:
        from goworkers_py.features.delays.redis_part import part

        return part()

    def access(self) -> FeatureAccess:
        from goworkers_py.features.delays.access import ACCESS

        return ACCESS


FEATURE = DelaysFeature()
