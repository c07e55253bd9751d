"""Makes the plan of a daemon from what the code declares and what the configuration says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goworkers_py.config.options import Config, PoolConfig, QueueConfig
from goworkers_py.config.partitions import of_partition
from goworkers_py.config.user_code import resolve
from goworkers_py.core.errors import ConfigError
from goworkers_py.features import FEATURES
from goworkers_py.links.chain import Links, Middleware
from goworkers_py.policy.levels import Levels
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.plan import Plan

if TYPE_CHECKING:
    from goworkers_py.api.declarations import Declarations


def plan_of(declared: Declarations, config: Config) -> Plan:
    """Imports the code that the configuration names, and checks it, without opening a broker."""
    declared.import_jobs(config)
    declared.client_links_of(config)  # the jobs' own pushes go through these links
    _check_features(declared.registry, config)
    registry = declared.registry.without_handlers() if config.partition else declared.registry
    queues = _queues_to_run(declared, config)
    for queue in queues:
        of_features = (feature.queues().handler(queue, registry) for feature in FEATURES)
        if (found := next(filter(None, of_features), None)) is not None:
            registry.handle(queue.name, *found)
        elif queue.handler:
            registry.handle(queue.name, resolve(queue.handler, f"[queue:{queue.name}] handler"))
    levels = Levels(queues, registry)
    config.check_queues([queue.name for queue in levels.queues])
    for queue in queues:
        if (handler := registry.handler(queue.name)) is not None:
            for level in levels.of(queue.name):
                if level != queue.name:
                    registry.handle(level, handler)
    links_of = {queue.name: _links_of(declared, queue) for queue in queues}
    return Plan(
        config=config,
        queues=levels.queues,
        pools=[*map(levels.pool, _pools_of_one(queues, config.pools)), *map(levels.pool, config.pools)],
        registry=registry,
        handlers=declared.handlers,
        links=_all_links(declared, config),
        queue_links={level: links for queue, links in links_of.items() for level in levels.of(queue)},
        arounds=declared.arounds,
        before_start=declared.before_start,
        during_drain=declared.during_drain,
        on_health=declared.on_health,
    )


def check_partitions(declared: Declarations, config: Config) -> None:
    """Raises ConfigError for a job whose partition is not in the configuration."""
    for partition, job_class in declared.registry.partitions().items():
        try:
            of_partition(config, partition)
        except ConfigError as error:
            raise ConfigError(f"@job {job_class}: {error}") from None


def worked_by(declared: Declarations, config: Config) -> list[str]:
    """The partitions for which there are queues."""
    main = not config.partitions or config.queues or declared.queues or declared.registry.queues()
    return [*([""] if main else []), *(partition.name for partition in config.partitions)]


def _queues_to_run(declared: Declarations, config: Config) -> list[QueueConfig]:
    """The queues of the flags or the file, else of the calls of `process`, else of the registered jobs."""
    chosen = {queue.name: queue for queue in config.queues} or declared.queues
    if not chosen:
        chosen = {name: QueueConfig(name=name) for name in declared.registry.queues()}
    return list(chosen.values())


def _all_links(declared: Declarations, config: Config) -> Links:
    prepended = [_link(path, "[middleware] prepend") for path in config.middleware.prepend]
    appended = [_link(path, "[middleware] append") for path in config.middleware.append]
    return Links(prepended + declared.links.prepended, declared.links.appended + appended)


def _links_of(declared: Declarations, queue: QueueConfig) -> list[Middleware]:
    of_config = [_link(path, f"[queue:{queue.name}] middleware") for path in queue.middleware]
    return [*declared.queue_links.get(queue.name, []), *of_config]


def _pools_of_one(queues: Sequence[QueueConfig], pools: Sequence[PoolConfig]) -> list[PoolConfig]:
    shared = {name for pool in pools for name in pool.queues}
    return [PoolConfig.of_one(queue) for queue in queues if queue.name not in shared]


def _link(path: str, place: str) -> Middleware:
    """The link at this path. A class is instantiated without arguments; any other object must be a link itself."""
    link = resolve(path, place)
    link = link() if isinstance(link, type) else link
    if not isinstance(link, Middleware):
        raise ConfigError(f"{place}: {path!r} has no method call(queue, message, call_next)")
    return link


def _check_features(registry: Registry, config: Config) -> None:
    for feature in FEATURES:
        feature.check(registry, config)
