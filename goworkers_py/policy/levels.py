"""Which queues of a process are worked with their levels, see `core.levels`, and in which pools."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import chain

from goworkers_py.config.options import PoolConfig, QueueConfig
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.levels import bare_level, base_of, levels_of
from goworkers_py.policy.registry import Registry


class Levels:
    def __init__(self, queues: Sequence[QueueConfig], registry: Registry) -> None:
        """A queue has levels where the configuration says so, or the code of a job of it."""
        self._named = {queue.name for queue in queues}
        by_code = registry.with_priorities()
        self._with_levels = self._named & ({queue.name for queue in queues if queue.priorities} | by_code.keys())
        self._lists = {queue.name: queue.bare_list for queue in queues if queue.bare_list}
        for queue in queues:
            if queue.priorities is False and queue.name in by_code:
                raise ConfigError(
                    f"[queue:{queue.name}] priorities = no: the code of job {by_code[queue.name]} names a priority, so "
                    "its jobs would wait for ever; leave out this option, or the priority in the code"
                )
        for name in sorted(self._with_levels):
            self._check(name)
        self.queues = [dataclasses.replace(queue, name=level) for queue in queues for level in self.of(queue.name)]

    def _check(self, queue: str) -> None:
        if base_of(queue) != queue:
            raise ConfigError(
                f"[queue:{queue}] priorities: {queue} is a level of queue {base_of(queue)} already; set priorities "
                f"= yes in [queue:{base_of(queue)}]"
            )
        for level in self._named.intersection(levels_of(queue)) - {queue}:
            raise ConfigError(
                f"queue {level}: it is worked with queue {queue}, which has priorities; leave it out of the "
                "queues of this process"
            )

    def of(self, queue: str) -> Sequence[str]:
        levels = levels_of(queue) if queue in self._with_levels else (queue,)
        return (*levels, bare_level(queue, self._lists[queue])) if queue in self._lists else levels

    def pool(self, pool: PoolConfig) -> PoolConfig:
        """The pool with the levels of its queues."""
        special = [queue for queue in pool.queues if queue in self._with_levels or queue in self._lists]
        if not special:
            return pool
        if pool.weights:
            what = "priorities" if special[0] in self._with_levels else "a plain list"
            raise ConfigError(
                f"[pool:{pool.name}] weights: queue {special[0]} has {what}, which need{'s' * (what != 'priorities')} "
                f"strict order; take {special[0]} out of the pool, or leave out weights"
            )
        return dataclasses.replace(pool, queues=tuple(chain.from_iterable(map(self.of, pool.queues))))
