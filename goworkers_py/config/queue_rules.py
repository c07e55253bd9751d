"""The rules for queues and their pools that concern more than one option. `options` has the rules for each option."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from goworkers_py.config.options import SERIAL, PoolConfig, QueueConfig, options_of
from goworkers_py.core.errors import ConfigError
from goworkers_py.features import FEATURES
from goworkers_py.features.queue_options import FeatureQueueOptions

# The options that each section has, by the kind of the section and its name.
Given = Mapping[tuple[str, str], set[str]]

# Options that a section [queue:NAME] may give for a queue of a pool. The section of the pool gives the others.
OF_EACH_QUEUE = {"handler", "middleware", "priorities", *options_of(FeatureQueueOptions)}


def checked_queue(queue: QueueConfig, given: Given, where: str) -> QueueConfig:
    """The queue of a section, with the number of threads that its mode has."""
    for feature in FEATURES:
        queue = feature.queues().checked(queue, f"{where}: [queue:{queue.name}]")
    if queue.mode != SERIAL:
        return queue
    if "concurrency" in given[("queue", queue.name)]:
        return check_threads(queue, f"{where}: [queue:{queue.name}] concurrency")
    return dataclasses.replace(queue, concurrency=1)


def check_threads(queue: QueueConfig, place: str) -> QueueConfig:
    """Raises ConfigError for a queue in serial mode that is to have several threads."""
    if queue.mode == SERIAL and queue.concurrency != 1:
        raise ConfigError(
            f"{place} is {queue.concurrency}, but queue {queue.name} has mode = serial, which is one thread: leave out "
            "the number, or the mode"
        )
    return queue


def refuse_weights(flag: str) -> None:
    """Raises ConfigError for a flag in the way of Sidekiq."""
    if as_in_sidekiq := re.fullmatch(r"(.+)[,:](\d+)", flag):
        name, number = as_in_sidekiq.groups()
        raise ConfigError(
            f"--queue {flag!r}: write the threads as {name}={number}; queues with weights, as in Sidekiq, share a pool "
            f"in the file: [pool:NAME] with queues = {name}, ... and weights = {number}, ..."
        )


def check_pools(pools: Sequence[PoolConfig], given: Given, where: str) -> None:
    """Raises ConfigError."""
    pool_of: dict[str, PoolConfig] = {}
    names: set[str] = set()
    for pool in pools:
        if pool.name in names:
            raise ConfigError(f"{where}: [pool:{pool.name}] is there twice; make one section of both")
        names.add(pool.name)
        place = f"{where}: [pool:{pool.name}]"
        _check_order(pool, given.get(("pool", pool.name), set()), place)
        for queue in pool.queues:
            if queue in pool_of:
                other = pool_of[queue]
                again = "is named twice" if other is pool else f"is in [pool:{other.name}] too"
                raise ConfigError(f"{place} queues: {queue!r} {again}; name each queue once, in one pool")
            pool_of[queue] = pool
            _check_queue(queue, pool, given, where)
    for pool in pools:
        if ("queue", pool.name) in given and pool.name not in pool_of:
            raise ConfigError(
                f"{where}: [pool:{pool.name}] has the name of queue {pool.name!r}, which has threads of its own: "
                f"give the pool another name, or name the queue in its `queues`"
            )


def _check_order(pool: PoolConfig, given: set[str], place: str) -> None:
    if not pool.queues:
        raise ConfigError(f"{place} queues must name the pool's queues, such as: queues = critical, default, low")
    named = [re.fullmatch(r"(.+):(\d+)", queue) for queue in pool.queues]
    if all(named):
        queues, weights = (", ".join(found[group] for found in named if found) for group in (1, 2))
        raise ConfigError(f"{place} queues: for shares write queues = {queues} and weights = {weights}")
    if pool.weights and "order" in given:
        raise ConfigError(f"{place} order and weights: leave one of them out; order = strict knows no shares")
    if pool.weights and len(pool.weights) != len(pool.queues):
        raise ConfigError(
            f"{place} weights: {len(pool.weights)} for {len(pool.queues)} queues; give one for each of "
            f"{', '.join(pool.queues)}, in this order"
        )


def _check_queue(queue: str, pool: PoolConfig, given: Given, where: str) -> None:
    wrong = sorted(given.get(("queue", queue), set()) - OF_EACH_QUEUE)
    if "mode" in wrong:
        raise ConfigError(
            f"{where}: [queue:{queue}] mode: a queue in serial mode has a thread of its own; take the queue out of "
            f"[pool:{pool.name}], or leave out the mode"
        )
    if wrong:
        raise ConfigError(
            f"{where}: [queue:{queue}] {wrong[0]}: the queue shares the threads of [pool:{pool.name}]; set "
            f"{wrong[0]} there, or take the queue out of the pool"
        )
