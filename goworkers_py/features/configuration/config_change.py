"""Gives running launchers what a new configuration says, as far as it can change while they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from goworkers_py.config.log_levels import LEVELS
from goworkers_py.config.options import Config, PoolConfig
from goworkers_py.config.partitions import of_partition
from goworkers_py.core.errors import ConfigError
from goworkers_py.observe.job_log_levels import job_levels
from goworkers_py.runtime.daemon import AnyLauncher
from goworkers_py.runtime.launcher import Launcher


def changed(launchers: Iterable[AnyLauncher], old: Config, new: Config) -> set[str]:
    """Returns the names of the options that are in force now, as `differences` spells them. A process that
    stands by takes the log level alone."""
    done = set()
    if old.log_level != new.log_level:
        job_levels.reconfigure(LEVELS[new.log_level])
        done.add("log_level")
    for launcher in launchers:
        if isinstance(launcher, Launcher):
            name = launcher.plan.config.partition
            try:
                done |= set(_changed_of(launcher, of_partition(old, name), of_partition(new, name)))
            except ConfigError:  # the new configuration has no such partition: that waits
                continue
    return done


def _changed_of(launcher: Launcher, old: Config, new: Config) -> Iterator[str]:
    for queue in new.queues:
        title = f"[queue:{queue.name}]"
        before = {old_queue.name: old_queue for old_queue in old.queues}.get(queue.name)
        if (
            before is not None
            and before.concurrency != queue.concurrency
            and _resized(launcher, queue.name, queue.concurrency)
        ):
            yield f"{title} concurrency"
    for pool in new.pools:
        before_pool = {old_pool.name: old_pool for old_pool in old.pools}.get(pool.name)
        if before_pool is not None:
            yield from _changed_pool(launcher, before_pool, pool)
    if old.poll_interval != new.poll_interval:
        launcher.poll_every(new.poll_interval)
        yield from ("poll_interval", f"[partition:{new.partition}] poll_interval")
    yield from launcher.take(new)


def _changed_pool(launcher: Launcher, old: PoolConfig, new: PoolConfig) -> Iterator[str]:
    if old.concurrency != new.concurrency and _resized(launcher, new.name, new.concurrency):
        yield f"[pool:{new.name}] concurrency"
    if (old.weights, old.order) != (new.weights, new.order):
        for manager in launcher.managers:
            # With other queues the weights would be those of others.
            if manager.name == new.name and tuple(manager.queues) == new.queues:
                manager.prioritize(new.weights)
                yield from (f"[pool:{new.name}] weights", f"[pool:{new.name}] order")


def _resized(launcher: Launcher, pool: str, threads: int) -> bool:
    """False where there is no such pool whose threads can change: a queue may be in the pool of others."""
    return bool(launcher.resize(threads, pool))
