"""The jobs, links, handlers and hooks that a program's modules declare while they are imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from goworkers_py.api.client_links import ClientLink
from goworkers_py.api.defaults import Defaults
from goworkers_py.api.import_pushes import warned_of
from goworkers_py.api.periodic_plan import DeclaredPeriodic
from goworkers_py.api.plain_queues import plain_handler
from goworkers_py.config.job_options import CodeOptions, checked
from goworkers_py.config.options import Config, PoolConfig, QueueConfig
from goworkers_py.config.partitions import of_partition
from goworkers_py.config.user_code import import_from_here, import_module, resolve
from goworkers_py.core.election import LeaderChange
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.core.strikes import Lock
from goworkers_py.features.limits.configured import check_limits
from goworkers_py.features.unique.uniqueness import check_lock_options
from goworkers_py.links.around import Arounds
from goworkers_py.links.chain import Links, Middleware
from goworkers_py.links.retry import Handlers
from goworkers_py.policy.levels import Levels
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.alive.health_handlers import HealthHandler
from goworkers_py.runtime.plan import Plan


class Declarations:
    def __init__(self) -> None:
        self.registry = Registry()
        self.defaults = Defaults()
        self.links = Links()
        self.handlers = Handlers()
        self.arounds = Arounds()
        self.client_links: list[ClientLink] = []
        self.queues: dict[str, QueueConfig] = {}
        self.queue_links: dict[str, list[Middleware]] = {}
        self.before_start: list[Callable[[], None]] = []
        self.during_drain: list[Callable[[], None]] = []
        self.commands: dict[str, Callable[..., Any]] = {}
        self.periodic: list[DeclaredPeriodic] = []
        self.on_health: list[HealthHandler] = []
        self.on_lead: list[Callable[[LeaderChange], object]] = []
        self.on_follow: list[Callable[[LeaderChange], object]] = []
        self._lock = Lock()

    def options_of_job(self, options: CodeOptions, function: Callable[..., Any], job_class: str) -> CodeOptions:
        """The options of @job, checked, and the defaults below them."""
        said = self.defaults.below(code_options(options, "@job"), function)
        try:
            check_lock_options(options, said, job_class)
        except ArgumentError as error:
            raise ConfigError(f"@job: {job_class}: {error}") from None
        return said

    def import_jobs(self, config: Config) -> None:
        """Imports the modules of `require`, which declare their jobs."""
        import_from_here()
        with warned_of(self.client_links):
            for module in config.require:
                import_module(module, "require")

    def plan(self, config: Config) -> Plan:
        """Imports the code that the configuration names, and checks it, without opening a broker."""
        self.import_jobs(config)
        self.client_links_of(config)  # the jobs' own pushes go through these links
        check_limits(self.registry.declared_limits, config)
        registry = self.registry.without_handlers() if config.partition else self.registry
        queues = self._queues_to_run(config)
        for queue in queues:
            if queue.list_:
                registry.handle(queue.name, *plain_handler(queue, registry))
            elif queue.handler:
                registry.handle(queue.name, resolve(queue.handler, f"[queue:{queue.name}] handler"))
        levels = Levels(queues, registry)
        config.check_echo(queue.name for queue in levels.queues)
        for queue in queues:
            if (handler := registry.handler(queue.name)) is not None:
                for level in levels.of(queue.name):
                    if level != queue.name:
                        registry.handle(level, handler)
        links_of = {queue.name: self._links_of(queue) for queue in queues}
        return Plan(
            config=config,
            queues=levels.queues,
            pools=[*map(levels.pool, _pools_of_one(queues, config.pools)), *map(levels.pool, config.pools)],
            registry=registry,
            handlers=self.handlers,
            links=self._all_links(config),
            queue_links={level: links for queue, links in links_of.items() for level in levels.of(queue)},
            arounds=self.arounds,
            before_start=self.before_start,
            during_drain=self.during_drain,
            on_health=self.on_health,
            on_lead=self.on_lead,
            on_follow=self.on_follow,
            commands=self.commands,
        )

    def check_partitions(self, config: Config) -> None:
        """Raises ConfigError for a job whose partition is not in the configuration."""
        for partition, job_class in self.registry.partitions().items():
            try:
                of_partition(config, partition)
            except ConfigError as error:
                raise ConfigError(f"@job {job_class}: {error}") from None

    def worked(self, config: Config) -> list[str]:
        """The partitions for which there are queues."""
        main = not config.partitions or config.queues or self.queues or self.registry.queues()
        return [*([""] if main else []), *(one.name for one in config.partitions)]

    def _queues_to_run(self, config: Config) -> list[QueueConfig]:
        """The queues of the flags or the file, else of the calls of `process`, else of the registered jobs."""
        chosen = {queue.name: queue for queue in config.queues} or self.queues
        if not chosen:
            chosen = {name: QueueConfig(name=name) for name in self.registry.queues()}
        return list(chosen.values())

    def _all_links(self, config: Config) -> Links:
        prepended = [_link(path, "[middleware] prepend") for path in config.middleware.prepend]
        appended = [_link(path, "[middleware] append") for path in config.middleware.append]
        return Links(prepended + self.links.prepended, self.links.appended + appended)

    def _links_of(self, queue: QueueConfig) -> list[Middleware]:
        of_config = [_link(path, f"[queue:{queue.name}] middleware") for path in queue.middleware]
        return [*self.queue_links.get(queue.name, []), *of_config]

    def client_links_of(self, config: Config) -> list[ClientLink]:
        """The declared client links, and those of the configuration, each once."""
        of_config = [resolve(path, "[middleware] client") for path in config.middleware.client]
        if any(link not in self.client_links for link in of_config):
            with self._lock:  # the threads of a program may push for the first time at once
                self.client_links += [link for link in of_config if link not in self.client_links]
        return self.client_links


def _pools_of_one(queues: Sequence[QueueConfig], pools: Sequence[PoolConfig]) -> list[PoolConfig]:
    shared = {name for pool in pools for name in pool.queues}
    return [PoolConfig.of_one(queue) for queue in queues if queue.name not in shared]


def code_options(options: CodeOptions, place: str) -> CodeOptions:
    """Checks the options where the job is declared, not at its first failure. `place` is for the error."""
    try:
        valid: CodeOptions = checked(options, CodeOptions)  # type: ignore[assignment]
        return valid
    except ArgumentError as error:
        raise ConfigError(f"{place}: {error}") from None


def _link(path: str, place: str) -> Middleware:
    """The link at this path. A class is instantiated without arguments; any other object must be a link itself."""
    link = resolve(path, place)
    link = link() if isinstance(link, type) else link
    if not isinstance(link, Middleware):
        raise ConfigError(f"{place}: {path!r} has no method call(queue, message, call_next)")
    return link
