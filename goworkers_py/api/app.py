"""A program's jobs, links, hooks and configuration, gathered while its modules are imported.

`goworkers_py` itself is the face of one default App; tests and embedders may make others.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from goworkers_py.admin.stats import Inspector
from goworkers_py.api.client import Client, ClientLink
from goworkers_py.api.job import Job
from goworkers_py.brokers.contracts import Broker
from goworkers_py.brokers.open_broker import OpenBroker
from goworkers_py.brokers.redis.connection import Connections
from goworkers_py.brokers.redis.keys import Keys
from goworkers_py.config.job_options import NO_OPTIONS, CodeOptions, EnqueueOptions, checked
from goworkers_py.config.loader import load, of_go_workers
from goworkers_py.config.moments import Delay, Moment, after
from goworkers_py.config.options import Config, QueueConfig, options_of
from goworkers_py.config.parsers import without_password
from goworkers_py.config.user_code import import_from_here, import_module, resolve
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ArgumentError, ConfigError
from goworkers_py.links.chain import Links, Middleware
from goworkers_py.links.retry import Handler as FailureHandler
from goworkers_py.links.retry import Handlers
from goworkers_py.observe.health_report import STARTING, HealthReport, merged
from goworkers_py.policy.registry import Handler, JobSpec, Registry
from goworkers_py.runtime.launcher import Launcher, Work
from goworkers_py.system.run_process import run
from goworkers_py.web.pages import pages
from goworkers_py.web.server import StatsServer
from goworkers_py.wire.message import Timestamps

if TYPE_CHECKING:
    from typing_extensions import Unpack

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class App:
    def __init__(self) -> None:
        self.registry = Registry()
        self.clock = Clock()
        self.middleware = Links()
        self.handlers = Handlers()
        self.client_links: list[ClientLink] = []
        self._config: Config | None = None
        self._configured_by_command = False
        self._queues: dict[str, QueueConfig] = {}
        self._queue_links: dict[str, list[Middleware]] = {}
        self._before_start: list[Callable[[], None]] = []
        self._during_drain: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        # Made when they are first needed; but for the client, changed under the lock only.
        self._opened: OpenBroker | None = None
        self._client: Client | None = None
        self._launcher: Launcher | None = None
        self._stop_asked = threading.Event()
        self._report: Callable[[], HealthReport] = lambda: merged(STARTING, [])

    # --- configuration

    def configure(self, settings: Mapping[str, Any] | str | os.PathLike[str] | None = None, /, **options: Any) -> None:
        """From go-workers' dict (`server`, `database`, `password`, `pool`, `process`, `namespace`), a file's path, or
        options by name: `configure(redis="redis://...", timeout=30)`."""
        if isinstance(settings, Mapping):
            options = of_go_workers(settings) | options
        path = settings if isinstance(settings, str | os.PathLike) else None
        flags = {name: _as_text(value) for name, value in options.items()}
        self.use(load(None if path is None else Path(path), flags=flags, place=lambda name: f"configure: {name}"))

    def use(self, config: Config, by_command: bool = False) -> None:
        """`by_command`: what a module says while it is imported does not count any more."""
        if self._configured_by_command and not by_command:
            _tell_what_is_passed_over(config, self.config)
            return
        self._configured_by_command = by_command
        self._replace(config)

    def _replace(self, config: Config) -> None:
        with self._lock:
            self._config = config
            opened, self._opened, self._client = self._opened, None, None
            if opened is not None:
                opened.close()

    @property
    def config(self) -> Config:
        if (config := self._config) is not None:
            return config
        with self._lock:
            if self._config is None:
                self._config = load()
            return self._config

    @property
    def _backend(self) -> OpenBroker:
        # First without the lock, which in the child that a job has forked may be held by a thread of its parent.
        if (opened := self._opened) is not None:
            return opened
        config = self.config
        with self._lock:
            if self._opened is None:
                self._opened = OpenBroker(config)
            return self._opened

    @property
    def broker(self) -> Broker:
        return self._backend.broker

    # --- jobs, links, hooks

    @overload
    def job(self, name: Callable[P, R], /) -> Job[P, R]: ...

    @overload
    def job(self, name: str | None = None, **options: Unpack[CodeOptions]) -> Callable[[Callable[P, R]], Job[P, R]]: ...

    def job(
        self, name: Callable[P, R] | str | None = None, **options: Unpack[CodeOptions]
    ) -> Job[P, R] | Callable[[Callable[P, R]], Job[P, R]]:
        """Decorator: runs jobs of this class, `name` on the wire, with this function.

        Options: queue, retry, retry_max, retry_for, retry_in, retry_queue, dead, backtrace, tags, timeout, interrupt,
        log_level. docs/getting-started.md has the table of them. Those of a push, see `Job.set`, override these.
        """

        def add(function: Callable[P, R]) -> Job[P, R]:
            wire_name = name if isinstance(name, str) else getattr(function, "__name__", repr(function))
            spec = JobSpec(wire_name, function, options.get("queue") or "default", _code_options(options))
            self.registry.add(spec)
            return Job(lambda: self.client, self.clock, spec)

        return add(name) if callable(name) else add

    def process(self, queue: str, handler: Handler, concurrency: int = 10, /, *links: Middleware) -> None:
        """go-workers' shape: `handler(message)` runs every job of the queue, whatever its class."""
        if concurrency < 1:
            raise ConfigError(f"process({queue!r}): concurrency must be at least 1, is {concurrency}")
        self.registry.handle(queue, handler)
        self._queues[queue] = QueueConfig(name=queue, concurrency=concurrency)
        self._queue_links[queue] = list(links)

    def before_start(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Called once the server is reached, before the first job is fetched."""
        self._before_start.append(hook)
        return hook

    def during_drain(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Called when the process stops, while the last jobs run."""
        self._during_drain.append(hook)
        return hook

    def on_error(self, handler: FailureHandler) -> FailureHandler:
        """`handler(message, error)` is called after every failed run."""
        self.handlers.error.append(handler)
        return handler

    def on_death(self, handler: FailureHandler) -> FailureHandler:
        """`handler(message, error)` is called when a failed job will not be retried any more."""
        self.handlers.death.append(handler)
        return handler

    def client_middleware(self, link: ClientLink) -> ClientLink:
        """`link(job)` gets each job before it is pushed, a dict, and returns it, or None to stop the push."""
        self.client_links.append(link)
        return link

    # --- pushing

    @property
    def client(self) -> Client:
        client = self._client
        if client is None:
            of_config = [resolve(path, "[middleware] client") for path in self.config.middleware.client]
            self.client_links += [link for link in of_config if link not in self.client_links]
            timestamps, address = Timestamps(self.config.timestamps), without_password(self.config.redis)
            # Without the lock, see `_backend`. Where two threads come here at once, each has a client that does.
            client = self._client = Client(lambda: self.broker, self.client_links, timestamps, self.clock.wall, address)
        return client

    def enqueue(self, queue: str, job_class: str, args: Sequence[Any]) -> str | None:
        return self.client.push(queue, job_class, args)

    def enqueue_in(self, queue: str, job_class: str, delay: Delay, args: Sequence[Any]) -> str | None:
        return self.enqueue_at(queue, job_class, after(delay, self.clock.wall()), args)

    def enqueue_at(self, queue: str, job_class: str, at: Moment, args: Sequence[Any]) -> str | None:
        return self.client.push(queue, job_class, args, EnqueueOptions(at=at))

    def enqueue_with_options(
        self, queue: str, job_class: str, args: Sequence[Any], options: EnqueueOptions
    ) -> str | None:
        return self.client.push(queue, job_class, args, options)

    def enqueue_bulk(
        self, queue: str, job_class: str, rows: Iterable[Sequence[Any]], options: EnqueueOptions = NO_OPTIONS
    ) -> list[str | None]:
        return self.client.push_bulk(queue, job_class, rows, options)

    # --- looking

    @property
    def place(self) -> tuple[Connections, Keys]:
        """Where everything lies, for those who look at it."""
        backend = self._backend
        return backend.connections, backend.keys

    @property
    def inspector(self) -> Inspector:
        return Inspector(*self.place)

    def stats_server(self, port: int, host: str = "127.0.0.1") -> StatsServer:
        """Serves `/stats` as go-workers has it, and the other pages of `stats_port`, beside `run` or `start`."""
        server = StatsServer(host, port, pages(lambda: self._report(), lambda: self.inspector.stats()))
        server.start()
        return server

    # --- running

    def import_jobs(self) -> None:
        """Imports the modules that the configuration names: they register their jobs."""
        import_from_here()
        for module in self.config.require:
            import_module(module, "require")

    def launcher(self) -> Launcher:
        """Imports what the configuration names and puts the daemon together; nothing is started yet."""
        config = self.config
        self.import_jobs()
        queues = self._queues_to_work(config)
        for queue in queues:
            if queue.handler:
                self.registry.handle(queue.name, resolve(queue.handler, f"[queue:{queue.name}] handler"))
        work = Work(
            registry=self.registry,
            links=self._all_links(config),
            queue_links={queue.name: self._links_of(queue) for queue in queues},
            handlers=self.handlers,
            before_start=[self._warn_of_eviction, *self._before_start],
            during_drain=self._during_drain,
        )
        launcher = Launcher(config, queues, work, self.broker, self.place, self.clock)
        self.client.on_schedule = launcher.scheduler.hint
        self._report = launcher.report
        return launcher

    def _warn_of_eviction(self) -> None:
        policy = self.inspector.eviction_policy()
        if policy not in ("", "noeviction"):
            log.warning(
                "the server may throw jobs away when its memory is full (maxmemory-policy %s): "
                "set maxmemory-policy noeviction", policy
            )  # fmt: skip

    def _queues_to_work(self, config: Config) -> list[QueueConfig]:
        """What the flags or the file say, else the calls of `process`, else the queues that the jobs' code names."""
        chosen = {queue.name: queue for queue in config.queues} or self._queues
        if not chosen:
            chosen = {name: QueueConfig(name=name) for name in self.registry.queues() or ["default"]}
        return list(chosen.values())

    def unworked(self, launcher: Launcher) -> dict[str, list[str]]:
        """The queues that registered code names and that nobody works, each with the classes of its jobs."""
        worked = {manager.queue for manager in launcher.managers}
        return {queue: self.registry.names_in(queue) for queue in self.registry.queues() if queue not in worked}

    def _warn_of_unworked(self, launcher: Launcher) -> None:
        if unworked := self.unworked(launcher):
            log.warning("jobs are registered for queue %s, which this process does not work", ", ".join(unworked))

    def _all_links(self, config: Config) -> Links:
        prepended = [_link(path, "[middleware] prepend") for path in config.middleware.prepend]
        appended = [_link(path, "[middleware] append") for path in config.middleware.append]
        return Links(prepended + self.middleware.prepended, self.middleware.appended + appended)

    def _links_of(self, queue: QueueConfig) -> list[Middleware]:
        of_config = [_link(path, f"[queue:{queue.name}] middleware") for path in queue.middleware]
        return [*self._queue_links.get(queue.name, []), *of_config]

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """Works until a signal asks to stop; returns the exit code."""
        return run(self.config, self._launcher_of_command, lambda: self.inspector.stats(), ready)

    def _launcher_of_command(self) -> Launcher:
        launcher = self.launcher()
        log.info("jobs: %s; Redis: %s", ", ".join(self.registry.names()) or "none", without_password(self.config.redis))
        if not self.registry.names() and not self.registry.any_handlers:
            log.warning("no jobs are registered, so every job will fail: name the modules with -r or `require`")
        self._warn_of_unworked(launcher)
        return launcher

    def start(self) -> None:
        """Works in the background of a program that goes on by itself, until `quit`. No signals are handled."""
        self._launcher = self.launcher()
        self._warn_of_unworked(self._launcher)
        self._stop_asked.clear()
        self._launcher.start(self._stop_asked)

    def quit(self) -> None:
        """Stops what `start` began, gracefully."""
        self._stop_asked.set()
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.stop()
            self._replace(self.config)  # the daemon's broker is closed: a later push makes a new one


def _code_options(options: CodeOptions) -> CodeOptions:
    """A mistake is told where the job is declared, not at its first failure."""
    try:
        said: CodeOptions = checked(options, CodeOptions)  # type: ignore[assignment]
        return said
    except ArgumentError as error:
        raise ConfigError(f"@job: {error}") from None


def _link(path: str, place: str) -> Middleware:
    """A class is called without arguments; anything else must be a link already."""
    link = resolve(path, place)
    link = link() if isinstance(link, type) else link
    if not isinstance(link, Middleware):
        raise ConfigError(f"{place}: {path!r} has no method call(queue, message, call_next)")
    return link


def _tell_what_is_passed_over(said: Config, holds: Config) -> None:
    """A module that is imported by a command calls `configure` for when it is a program of its own."""
    usual = Config()
    names = [
        name for name in options_of(Config) if getattr(said, name) not in (getattr(usual, name), getattr(holds, name))
    ]
    if names:
        log.warning(
            "configure() is passed over, because a command runs this code; what it says of %s belongs into the "
            "configuration file, the environment or flags", ", ".join(names)
        )  # fmt: skip


def _as_text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list | tuple) else str(value)
