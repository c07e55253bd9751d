"""A program's jobs, links, hooks and configuration, collected while its modules are imported.

The functions of `goworkers_py` are the methods of one default App; tests and embedding programs may make others.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from goworkers_py.admin.chains import ChainList
from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.batches import Batching, OpenBatches
from goworkers_py.api.cancelling import Cancelling
from goworkers_py.api.chains import Chaining
from goworkers_py.api.client import Client
from goworkers_py.api.client_links import ClientLink
from goworkers_py.api.declarations import Declarations, code_options
from goworkers_py.api.destinations import destinations, remember
from goworkers_py.api.hooks import Hooks
from goworkers_py.api.ignored_options import warn_of_ignored
from goworkers_py.api.job import Job
from goworkers_py.api.job_function import check_function
from goworkers_py.api.limits import Limiting
from goworkers_py.api.periodic import DeclaringPeriodic
from goworkers_py.api.pushing import Pushing
from goworkers_py.api.results import Results
from goworkers_py.api.running import Running
from goworkers_py.api.testable import Testable
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.open_broker import kind_of_broker, open_broker
from goworkers_py.config.job_options import CodeOptions
from goworkers_py.config.loader import load, of_call
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.core.clock import Clock
from goworkers_py.core.command import Obey
from goworkers_py.core.errors import BrokerUnavailable, ConfigError
from goworkers_py.core.timing import TIMING
from goworkers_py.links.chain import Middleware
from goworkers_py.links.retry import Handlers
from goworkers_py.policy.registry import JobSpec, QueueHandler
from goworkers_py.runtime.assembly import assemble
from goworkers_py.runtime.due_hints import DueHints
from goworkers_py.runtime.health import Health
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.plan import Plan
from goworkers_py.wire.message import Timestamps

if TYPE_CHECKING:
    from typing_extensions import Unpack


P = ParamSpec("P")
R = TypeVar("R")


class App(
    Hooks, Pushing, Batching, Chaining, Results, Cancelling, DeclaringPeriodic, Limiting, Running, Testable,
):  # fmt: skip
    """A program's jobs, and its way to the broker. The examples are for `import goworkers_py as workers`."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._hints = DueHints()
        self.timing = TIMING  # tests set shorter times before the daemon is put together
        self._declared = Declarations()
        self.registry = self._declared.registry
        self.middleware = self._declared.links
        self._config: Config | None = None
        self._configured_by_command = False
        self._lock = threading.Lock()
        # Made when first needed. Changed under the lock only, except the client: see the property `client`.
        self._broker: Broker | None = None
        self._open_broker = open_broker
        self._client: Client | None = None
        self._launcher: Launcher | None = None
        self._stop_asked = threading.Event()
        self._health: Health | None = None  # of the launcher that was built last
        self.inspector = Inspector(
            lambda: self.broker,
            lambda: Timestamps(self.config.timestamps),
            lambda: self.clock.wall(),
            lambda message: self.handlers.tell_of_cancel(message),
        )
        self.batches = OpenBatches(lambda: self.client)
        self.chains = ChainList(lambda: self.broker)
        remember(self)

    # --- configuration

    def configure(self, settings: Mapping[str, Any] | str | os.PathLike[str] | None = None, /, **options: Any) -> None:
        """Takes options by name (`configure(broker="redis://...", timeout=30)`), a file's path, or go-workers' dict
        (`server`, `database`, `password`, `pool`, `process`, `namespace`, `poll_interval`)."""
        self.use(of_call(settings, options))

    def use(self, config: Config, by_command: bool = False) -> None:
        """Replaces the configuration. After a call `by_command`, calls by imported modules are ignored."""
        if self._configured_by_command and not by_command:
            warn_of_ignored(config, self.config)
            return
        self._configured_by_command = by_command
        self._replace(config)

    def _replace(self, config: Config | None) -> None:
        """Closes the broker, if one is open: the next use of `broker` opens another one."""
        with self._lock:
            self._config = config
            opened, self._broker, self._client = self._broker, None, None
            if opened is not None:
                opened.close()

    @property
    def is_configured(self) -> bool:
        return self._config is not None

    @property
    def config(self) -> Config:
        if (config := self._config) is not None:
            return config
        with self._lock:
            if self._config is None:
                self._config = load()
            return self._config

    @property
    def broker(self) -> Broker:
        # Read without the lock first: in a child that a job forked, a thread of the parent may hold the lock forever.
        if (broker := self._broker) is not None:
            return broker
        config = self.config
        with self._lock:
            if self._broker is None:
                self._broker = self._open_broker(self._timed(config))
            return self._broker

    def _timed(self, config: Config) -> Config:
        return dataclasses.replace(config, timing=self.timing)

    # --- jobs, links

    @overload
    def job(self, name: Callable[P, R], /) -> Job[P, R]: ...

    @overload
    def job(self, name: str | None = None, **options: Unpack[CodeOptions]) -> Callable[[Callable[P, R]], Job[P, R]]: ...

    def job(
        self, name: Callable[P, R] | str | None = None, **options: Unpack[CodeOptions]
    ) -> Job[P, R] | Callable[[Callable[P, R]], Job[P, R]]:
        """Decorator: `@workers.job("Billing::InvoiceJob", queue="billing", retry=5)` runs jobs of this class with this
        function. Without a name, the class is the function's name.

        Options: queue, priority, retry, retry_max, retry_for, retry_in, retry_queue, is_failure, dead, backtrace, tags,
        timeout, interrupt, atomic, track, retain, expires_in, expires_at, time_slice, checkpoint, sidekiq_status,
        unique_for, unique_by, unique_until, on_conflict, limits, group_grace, group_max_delay, group_max_size,
        log_level.
        docs/getting-started.md explains them. The options of a push override them, see `Job.set`.
        """

        def add(function: Callable[P, R]) -> Job[P, R]:
            check_function(function)
            wire_name = name if isinstance(name, str) else getattr(function, "__name__", repr(function))
            said = self._declared.options_of_job(options, function, wire_name)
            code = self.atomically(function) if said.get("atomic") else function
            spec = JobSpec(wire_name, code, said.get("queue") or "default", said, own=options)
            self.registry.add(spec)
            return Job(lambda: self.client, self.clock, spec)

        return add if name is None or isinstance(name, str) else add(name)

    def defaults(self, module: str | None = None, /, **options: Unpack[CodeOptions]) -> None:
        """`workers.defaults(retry=5)` gives options to all jobs that are declared after it;
        `workers.defaults(__name__, queue="billing")` to those of this module and of the modules below it.

        The options are those of `job`, which overrides them. A module's override the application's.
        """
        self._declared.defaults.add(module, code_options(options, "defaults()"))

    def process(self, queue: str, handler: QueueHandler, concurrency: int = 10, /, *links: Middleware) -> None:
        """`workers.process("mail", handler, 10)`: as in go-workers, `handler(message)` runs every job of the queue,
        whatever its class, in 10 threads."""
        if concurrency < 1:
            raise ConfigError(f"process({queue!r}): concurrency must be at least 1, is {concurrency}")
        self.registry.handle(queue, handler)
        self._declared.queues[queue] = QueueConfig(name=queue, concurrency=concurrency)
        self._declared.queue_links[queue] = list(links)

    def client_middleware(self, link: ClientLink) -> ClientLink:
        """Decorator `@workers.client_middleware`: `link(job)` gets each job, a dict, before its push, and returns the
        job, changed or not, or None to stop the push."""
        self._declared.client_links.append(link)
        return link

    # --- pushing

    @property
    def handlers(self) -> Handlers:
        return self._declared.handlers

    @property
    def client(self) -> Client:
        client = self._client
        if client is None:
            config = self.config
            links = self._declared.client_links_of(config)
            # Without the lock, see `broker`. Two threads at once may make two clients: both work, one stays.
            client = self._client = Client(
                lambda: self._broker_of(config), links, config, self.clock, self._hints.scheduled
            )
        return client

    def _broker_of(self, config: Config) -> Broker:
        """Held pushes must not go to another broker than the one for which they were made."""
        broker = self.broker
        if self._config is not config:
            raise BrokerUnavailable("this App was configured anew since the push")
        return broker

    # --- running

    def import_jobs(self) -> None:
        """Imports the modules of `require`, which declare their jobs."""
        self._declared.import_jobs(self.config)

    def checked_plan(self) -> Plan:
        """Checks the broker's address too: for commands that open no broker."""
        kind_of_broker(self.config).check(self.config)
        return self.plan()

    def plan(self) -> Plan:
        """Checks the configuration and imports the code that it names, without opening a broker."""
        plan = self._with_periodic(self._declared.plan(self.config))
        # Modules of tests may have set `timing`.
        return dataclasses.replace(plan, config=self._timed(plan.config), destinations=destinations)

    def launcher(self, obey: Obey | None = None) -> Launcher:
        """Builds the daemon without starting it. The commands of the fleet go to `obey`."""
        launcher = assemble(self.plan(), self.broker, self.clock, self._hints, obey)
        self._health = launcher.health
        return launcher

    def unworked(self, queues: Iterable[QueueConfig]) -> dict[str, list[str]]:
        """The queues that registered jobs name and that are not among `queues`, each with the classes of its jobs."""
        worked = {queue.name for queue in queues}
        return {queue: self.registry.names_in(queue) for queue in self.registry.queues() if queue not in worked}
