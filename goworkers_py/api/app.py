"""A program's jobs, links, hooks and configuration, collected while its modules are imported.

The functions of `goworkers_py` are the methods of one default App; tests and embedding programs may make others.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
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
from goworkers_py.api.messaging import Messaging
from goworkers_py.api.partition import Partition
from goworkers_py.api.periodic import DeclaringPeriodic
from goworkers_py.api.pushing import Pushing
from goworkers_py.api.reporting import Reporting, ReportRate
from goworkers_py.api.running import Running
from goworkers_py.api.testable import Testable
from goworkers_py.api.typed_message import TypedMessage
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.open_broker import kind_of_broker, open_broker
from goworkers_py.config.job_options import CodeOptions
from goworkers_py.config.loader import load, of_call
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.config.partitions import of_partition
from goworkers_py.core import machine
from goworkers_py.core.clock import Clock
from goworkers_py.core.command import Obey
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.strikes import Lock
from goworkers_py.core.timing import TIMING
from goworkers_py.features.limits.api import Limiting
from goworkers_py.features.tracking.api import Results
from goworkers_py.links.chain import Middleware
from goworkers_py.links.retry import Handlers
from goworkers_py.policy.registry import JobSpec, QueueHandler
from goworkers_py.runtime.assembly import assemble
from goworkers_py.runtime.daemon import Daemon
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.runtime.plan import Plan
from goworkers_py.runtime.standby.standby import Standby
from goworkers_py.wire.message import Timestamps

if TYPE_CHECKING:
    from typing_extensions import Unpack


P = ParamSpec("P")
R = TypeVar("R")


class App(
    Hooks, Pushing, Batching, Chaining, Results, Cancelling, DeclaringPeriodic, Limiting, Messaging, Running,
    Reporting, Testable,
):  # fmt: skip
    """A program's jobs, and its way to the broker. The examples are for `import goworkers_py as workers`."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.timing = TIMING  # tests set shorter times before the daemon is put together
        self._declared = Declarations()
        self.registry = self._declared.registry
        self.middleware = self._declared.links
        self._config: Config | None = None
        self._configured_by_command = False
        self._lock = Lock()
        self._partitions: dict[str, Partition] = {}  # made when first needed, under the lock
        self._open_broker = open_broker
        self._running: Daemon | None = None  # what `start` has started
        self._stop_asked = machine.Event()
        self._report_rate = ReportRate()
        self._daemon_built: Daemon | None = None  # the last one
        self._is_daemon = False  # the program is the daemon: `run` sets it. Otherwise its own threads are producers
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
        """Closes the brokers that are open: the next use of `broker` opens another one."""
        with self._lock:
            self._config = config
            partitions, self._partitions = self._partitions, {}
            for partition in partitions.values():
                partition.close()

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

    def partition(self, name: str = "") -> Partition:
        """`workers.partition("billing")` reaches the broker of the section [partition:billing], see docs/partitions.md:
        it pushes, waits for results, opens batches and shows jobs there."""
        if (known := self._partitions.get(name)) is not None:
            return known
        config = self.config
        with self._lock:
            config = self._config or config  # `configure` in another thread may have replaced it just now
            own = "" if name == config.partition else name
            known = self._partitions.get(own)
            if known is None:
                made = of_partition(config, own) if own else config
                known = self._partitions[own] = Partition(self, own, made, config)
            self._partitions[name] = known
            return known

    @property
    def broker(self) -> Broker:
        return self.partition().broker

    def open_broker(self, config: Config) -> Broker:
        return self._open_broker(self._timed(config))

    def now_in_place_of(self, partition: Partition) -> Partition | None:
        return self.partition(partition.key) if self._config is partition.of else None

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

        Options: queue, partition, priority, retry, retry_max, retry_for, retry_in, retry_queue, is_failure, dead,
        backtrace, tags, timeout, interrupt, atomic, track, retain, expires_in, expires_at, time_slice, checkpoint,
        sidekiq_status, unique_for, unique_by, unique_until, on_conflict, limits, group_grace, group_max_delay,
        group_max_size, log_level.
        docs/jobs.md explains them. The options of a push override them, see `Job.set`.
        """

        def add(function: Callable[P, R]) -> Job[P, R]:
            check_function(function)
            wire_name = name if isinstance(name, str) else getattr(function, "__name__", repr(function))
            said = self._declared.options_of_job(options, function, wire_name)
            code = self.atomically(function) if said.get("atomic") else function
            spec = JobSpec(wire_name, code, said.get("queue") or "default", said, own=options)
            self.registry.add(spec)
            return Job(self.client_of, self.clock, spec)

        return add if name is None or isinstance(name, str) else add(name)

    def adopt_messages(self) -> None:
        """Called by the package: typed messages whose class line names no App belong to this one."""
        TypedMessage._app = self

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
        return self.partition().client

    def client_of(self, partition: str) -> Client:
        return self.partition(partition).client

    def client_links_of(self, config: Config) -> Sequence[ClientLink]:
        return self._declared.client_links_of(config)

    # --- running

    def import_jobs(self) -> None:
        """Imports the modules of `require`, which declare their jobs."""
        self._declared.import_jobs(self.config)

    def checked_plans(self) -> list[Plan]:
        """Those of `plans`, if a daemon may start with them. Checks the brokers' addresses too: for commands that open
        no broker."""
        plans = [plan for _, plan in self.plans()]
        for plan in plans:
            kind_of_broker(plan.config).check(plan.config)
        self.check_code(plans)
        return plans

    def plan(self) -> Plan:
        """Checks the configuration and imports the code that it names, without opening a broker."""
        return self.plan_of(self.partition())

    def plan_of(self, partition: Partition) -> Plan:
        return self._with_periodic(self.plan_from(partition.config), partition)

    def plan_from(self, config: Config) -> Plan:
        """That of any configuration, without periodic jobs."""
        plan = self._declared.plan(config)
        # Modules of tests may have set `timing`.
        return dataclasses.replace(plan, config=self._timed(plan.config), destinations=destinations)

    def launcher(self, obey: Obey | None = None) -> Launcher:
        """Builds the daemon without starting it. The commands of the fleet go to `obey`."""
        partition = self.partition()
        return assemble(self.plan_of(partition), partition.broker, self.clock, partition.hints, obey)

    def daemon(self, obey: Obey | None = None) -> Daemon:
        """The launchers of all partitions that this process works."""
        plans = self.plans()
        self.check_code([plan for _, plan in plans])
        launchers = {plan.config.partition: self._launcher_of(partition, plan, obey) for partition, plan in plans}
        daemon = self._daemon_built = Daemon(launchers)
        return daemon

    def _launcher_of(self, partition: Partition, plan: Plan, obey: Obey | None) -> Launcher | Standby:
        def on(broker: Broker) -> Launcher:
            return assemble(plan, broker, self.clock, partition.hints, obey)

        partition.stands_by = plan.config.standby and not partition.broker.one_consumer
        if not partition.stands_by:
            return on(partition.broker)
        return Standby(plan, partition.broker, on, obey, partition.lead if self._is_daemon else None)

    def plans(self) -> list[tuple[Partition, Plan]]:
        """Those of the partitions that a process works, the main one first. Hooks of the process are in the first."""
        config = self.config
        self._declared.import_jobs(config)
        self._declared.check_partitions(config)
        worked = config.worked or self._declared.worked(config)
        plans = [(one, self.plan_of(one)) for one in map(self.partition, worked)]
        others = [(one, dataclasses.replace(plan, before_start=(), during_drain=())) for one, plan in plans[1:]]
        return [*plans[:1], *others]

    def unworked(self, plan: Plan) -> dict[str, list[str]]:
        """The queues that registered jobs name and that the plan of their partition does not work, each with the
        classes of its jobs."""
        worked, named = {queue.name for queue in plan.queues}, self.registry.queues(plan.config.partition)
        return {queue: self.registry.names_in(queue) for queue in named if queue not in worked}
