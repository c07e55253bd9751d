"""A program's jobs, links, hooks and configuration, collected while its modules are imported.

The functions of `goworkers_py` are the methods of one default App; tests and embedding programs may make others.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from goworkers_py.api.declarations import Declarations, code_options
from goworkers_py.api.destinations import remember
from goworkers_py.api.job import Job
from goworkers_py.api.job_function import check_function, code_of
from goworkers_py.api.partition import Partition
from goworkers_py.api.producer import Producer
from goworkers_py.brokers.open_broker import open_broker
from goworkers_py.core.clock import Clock
from goworkers_py.core.errors import ConfigError
from goworkers_py.core.strikes import Lock
from goworkers_py.core.timing import TIMING
from goworkers_py.policy.registry import JobSpec, QueueHandler
from goworkers_py.wire.message import Timestamps

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from goworkers_py.api.client import Client
    from goworkers_py.api.client_links import ClientLink
    from goworkers_py.api.runner import Runner
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.config.job_options import CodeOptions, SetOptions
    from goworkers_py.config.moments import Delay
    from goworkers_py.config.options import Config
    from goworkers_py.features.calls.api import Reports
    from goworkers_py.features.limits.api import Limit
    from goworkers_py.features.messages.receiver import Receiver
    from goworkers_py.features.messages.typed_message import TypedMessage
    from goworkers_py.features.periodic.plan import ArgsOf
    from goworkers_py.features.periodic.schedule import CatchUp, Overlap
    from goworkers_py.features.standby.election import LeaderChange
    from goworkers_py.links.around import ContextFactory
    from goworkers_py.links.chain import Middleware
    from goworkers_py.links.handlers import EndHandler, FailureHandler
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.runtime.alive.health_handlers import HealthHandler
    from goworkers_py.web.server import WebServer

P = ParamSpec("P")
R = TypeVar("R")
LeaderHandler = Callable[["LeaderChange"], object]
Factory = TypeVar("Factory", bound="ContextFactory")
Command = TypeVar("Command", bound=Callable[..., Any])

_NAME = r"[a-z0-9][a-z0-9-]*"


class Clients(dict[str, "Client"]):
    """By partition. Each push of a job looks here."""

    def __init__(self, app: App) -> None:
        super().__init__()
        self._app = app

    def __missing__(self, partition: str) -> Client:
        return self._app.client_of(partition)


class App(Producer):
    """A program's jobs, and its way to the broker. The examples are for `import goworkers_py as workers`."""

    def __init__(self) -> None:
        self._declared = Declarations()
        super().__init__(Clock(), self._declared.registry)
        self.timing = TIMING  # tests set shorter times before the daemon is put together
        self.allow_no_jobs = False  # set by a flag of commands
        self.middleware = self._declared.links
        self._config: Config | None = None
        self._configured_by_command = False
        self._lock = Lock()
        self._open_broker: Callable[[Config], Broker] = open_broker
        # Made when first needed, under the lock.
        self.partitions: dict[str, Partition] = {}
        # By the names of the partitions here. Each is set by the beats of one server, and stays when its broker is
        # closed. Read and changed under the lock.
        self._clocks = {"": self.clock}
        self._runner: Runner | None = None
        self._reports: Reports | None = None
        self.clients = Clients(self)
        remember(self)

    # --- configuration

    def configure(self, settings: Mapping[str, Any] | str | os.PathLike[str] | None = None, /, **options: Any) -> None:
        """Takes options by name (`configure(broker="redis://...", timeout=30)`), a file's path, or go-workers' dict
        (`server`, `database`, `password`, `pool`, `process`, `namespace`, `poll_interval`)."""
        from goworkers_py.config.loader import of_call

        self.use(of_call(settings, options))

    def use(self, config: Config, by_command: bool = False) -> None:
        """Replaces the configuration. After a call `by_command`, calls by imported modules are ignored."""
        if self._configured_by_command and not by_command:
            from goworkers_py.api.ignored_options import warn_of_ignored

            warn_of_ignored(config, self.config)
            return
        self._configured_by_command = by_command
        self._replace(config)

    def _replace(self, config: Config | None) -> None:
        with self._lock:
            self._config = config
            partitions = self._take_partitions()
            for partition in partitions.values():
                partition.close()

    def _take_partitions(self) -> dict[str, Partition]:
        """Under the lock. The next use of each makes another one."""
        taken = dict(self.partitions)
        self.partitions.clear()
        self.clients.clear()
        return taken

    def close(self) -> None:
        """Closes the brokers that are open. A later use opens others."""
        self._replace(self._config)

    @property
    def is_configured(self) -> bool:
        return self._config is not None

    @property
    def config(self) -> Config:
        if (config := self._config) is not None:
            return config
        from goworkers_py.config.loader import load

        with self._lock:
            if self._config is None:
                self._config = load()
            return self._config

    def partition(self, name: str = "") -> Partition:
        """`workers.partition("billing")` reaches the broker of the section [partition:billing], see docs/partitions.md:
        it pushes, waits for results, opens batches and shows jobs there."""
        if (known := self.partitions.get(name)) is not None:
            return known
        config = self.config
        with self._lock:
            config = self._config or config  # `configure` in another thread may have replaced it just now
            own = "" if name == config.partition else name
            known = self.partitions.get(own)
            if known is None:
                known = self.partitions[own] = Partition(self, own, self._config_of(own, config), config)
            self.partitions[name] = known
            return known

    @property
    def broker(self) -> Broker:
        return self.partition().broker

    def open_broker(self, config: Config) -> Broker:
        return self._open_broker(self.timed(config))

    def clock_of(self, partition: str) -> Clock:
        """Called under the lock, by a new Partition."""
        if partition not in self._clocks:
            self._clocks[partition] = Clock()
            self._clocks[partition].travel(self.clock.travelled_s)
        return self._clocks[partition]

    def _config_of(self, partition: str, config: Config) -> Config:
        if not partition:
            return config
        from goworkers_py.config.partitions import of_partition

        return of_partition(config, partition)

    def now_in_place_of(self, partition: Partition) -> Partition | None:
        return self.partition(partition.key) if self._config is partition.of else None

    def timed(self, config: Config) -> Config:
        """The configuration with the times of this App, which tests shorten."""
        return dataclasses.replace(config, timing=self.timing)

    # --- its parts

    @property
    def timestamps(self) -> Timestamps:
        return Timestamps(self.config.timestamps)

    @property
    def client(self) -> Client:
        return self.partition().client

    def client_of(self, partition: str) -> Client:
        """Called by `clients` for one that they do not have."""
        found = self.partition(partition)
        client = self.clients[partition] = found.client
        # Without the lock: in a child that a job forked, a thread of the parent may hold it forever. So `configure` may
        # have replaced the partition just now.
        if self.partitions.get(partition) is not found:
            self.clients.pop(partition, None)
        return client

    def client_links_of(self, config: Config) -> Sequence[ClientLink]:
        return self._declared.client_links_of(config)

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

        docs/jobs.md lists the options. Those of a push override them, see `Job.set`.
        """

        def add(function: Callable[P, R]) -> Job[P, R]:
            check_function(function)
            wire_name = name if isinstance(name, str) else getattr(function, "__name__", repr(function))
            said = self._declared.options_of_job(options, function, wire_name)
            spec = JobSpec(wire_name, code_of(function, said), said.get("queue") or "default", said, own=options)
            self.registry.add(spec)
            return Job(self.clients, spec)

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
        from goworkers_py.config.options import QueueConfig

        self.registry.handle(queue, handler)
        self._declared.queues[queue] = QueueConfig(name=queue, concurrency=concurrency)
        self._declared.queue_links[queue] = list(links)

    def client_middleware(self, link: ClientLink) -> ClientLink:
        """Decorator `@workers.client_middleware`: `link(job)` gets each job, a dict, before its push, and returns the
        job, changed or not, or None to stop the push."""
        self._declared.client_links.append(link)
        return link

    def periodic(
        self,
        cron: str = "",
        /,
        *,
        every: Delay | None = None,
        timezone: str = "",
        name: str = "",
        args: Sequence[Any] | ArgsOf = (),
        kwargs: Mapping[str, Any] | None = None,
        catch_up: CatchUp = "latest",
        overlap: Overlap = "allow",
    ) -> Callable[[Job[P, R]], Job[P, R]]:
        """Decorator above `@workers.job`: `@workers.periodic("0 3 * * *", timezone="Europe/Berlin")` or
        `@workers.periodic(every=30)`. The daemons push the job at these times, each once in the whole fleet. Without a
        time zone, the expression is in UTC.

        `args` may be a function: `args=lambda slot: [slot.date().isoformat()]`. A job with several of these decorators
        needs a `name=` for each. docs/periodic-jobs.md explains the options.
        """
        from goworkers_py.features.periodic.api import declaring

        return declaring(self.registry, cron, every, timezone, name, args, kwargs, catch_up, overlap)

    def limit(
        self,
        name: str,
        *,
        concurrent: int | None = None,
        rate: str | None = None,
        burst: int = 1,
        by: Callable[..., Any] | None = None,
        pass_retries: bool = False,
    ) -> Limit:
        """`stripe = workers.limit("stripe", concurrent=5)`: of all jobs with this limit, five run at once in the whole
        fleet. `workers.limit("api", rate="100/minute", burst=20)`: so many begin. docs/limits.md explains both.

        `by`, a function of the job's arguments, makes a limit of its own for each key that it returns. With
        `concurrent=1`, jobs run in the order in which they were pushed; `pass_retries`: a job that waits for its retry
        lets the next ones pass.
        """
        from goworkers_py.features.limits.api import Limited, declared_limit

        limited = Limited(lambda: self.broker, lambda: self.config, self.registry)
        return declared_limit(limited, name, concurrent, rate, burst, by, pass_retries)

    # --- hooks

    def before_start(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Decorator `@workers.before_start`: `hook()` is called when the broker is reached, before the first fetch."""
        self._declared.before_start.append(hook)
        return hook

    def during_drain(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Decorator `@workers.during_drain`: `hook()` is called when the process stops, while the last jobs run."""
        self._declared.during_drain.append(hook)
        return hook

    def on_health(self, handler: HealthHandler) -> HealthHandler:
        """Decorator `@workers.on_health`: `handler(event)` is called when the server is lost (`event.lost` is true, and
        `event.error` says why) and when it is found again (after `event.lasted_s`)."""
        self._declared.on_health.append(handler)
        return handler

    def on_lead(self, handler: LeaderHandler) -> LeaderHandler:
        """Decorator `@workers.on_lead`: `handler(change)` is called when this process has become the leader of
        `change.partition` (empty: of the daemon), in epoch `change.epoch`, before it fetches. For `standby`."""
        from goworkers_py.features.standby.election import leader_handlers

        leader_handlers(self.registry).on_lead.append(handler)
        return handler

    def on_follow(self, handler: LeaderHandler) -> LeaderHandler:
        """Decorator `@workers.on_follow`: `handler(change)` is called when this process leads no more: it has ended the
        work of epoch `change.epoch`, and is a standby again or stops."""
        from goworkers_py.features.standby.election import leader_handlers

        leader_handlers(self.registry).on_follow.append(handler)
        return handler

    def command(self, name: str) -> Callable[[Command], Command]:
        """Decorator `@workers.command("flush-cache")`: `pyworkers processes call flush-cache` calls the function in the
        processes that it names, each in a thread of its own, with the JSON values of the call. It returns the
        answer, a JSON value."""
        from goworkers_py.features.calls.call import BUILT_IN
        from goworkers_py.features.calls.own_commands import declared_commands

        if not re.fullmatch(_NAME, name):
            raise ConfigError(f"command({name!r}): a name is lower-case letters, digits and hyphens: flush-cache")
        if name in BUILT_IN:
            raise ConfigError(f"command({name!r}): every process has a command of this name; take another one")

        def add(function: Command) -> Command:
            declared_commands(self.registry)[name] = function
            return function

        return add

    def around(self, factory: Factory) -> Factory:
        """Decorator `@workers.around`: the context that `factory(message)` makes is entered around each run of a job.

        Give it a generator function with one `yield`, or a function that returns a context manager. An async generator
        function is entered around async jobs, in their event loop. The first that was declared is the outermost.
        """
        self._declared.arounds.add(factory)
        return factory

    def on_error(self, handler: FailureHandler) -> FailureHandler:
        """Decorator `@workers.on_error`: `handler(message, error)` is called after every failed run."""
        self._declared.handlers.error.append(handler)
        return handler

    def on_death(self, handler: FailureHandler) -> FailureHandler:
        """Decorator `@workers.on_death`: `handler(message, error)` is called when a failed job has no retries left."""
        self._declared.handlers.death.append(handler)
        return handler

    def on_cancel(self, handler: EndHandler) -> EndHandler:
        """Decorator `@workers.on_cancel`: `handler(message)` is called when a job was cancelled: in the process that
        ran or met it, or in the one that cancelled it where it waited."""
        from goworkers_py.features.cancelling.api import handlers_of

        handlers_of(self.registry).append(handler)
        return handler

    def on_expire(self, handler: EndHandler) -> EndHandler:
        """Decorator `@workers.on_expire`: `handler(message)` is called for a job that is dropped because it was not
        begun by its `expires_at`."""
        from goworkers_py.features.expiry.api import handlers_of

        handlers_of(self.registry).append(handler)
        return handler

    # --- messages

    def send(self, message: TypedMessage, *, delay: Delay | None = None, **options: Unpack[SetOptions]) -> str | None:
        """`workers.send(Mail(to="ada@example.com"), delay=60)` returns the jid, or None when a client link stopped the
        push. `delay` is in seconds or a timedelta; the options are those of `Job.set`, such as `at=`, in epoch seconds
        or a datetime. To a queue of plain format, see docs/plain-lists.md, it pushes the bare body without a jid."""
        from goworkers_py.features.messages.api import send

        return send(self.partition, message, delay, options)

    def receive(self, kind: type[TypedMessage], consumers: int = 5) -> Receiver:
        """`receiver = workers.receive(Mail, consumers=5)` resolves the messages of a class in 5 threads of this
        program, until `receiver.stop()`. It receives all jobs of the class's channel. While the server is away it
        returns all the same, and begins when the server is there: see `receiver.ready` and `wait_until_ready`."""
        from goworkers_py.features.messages.api import receive

        return receive(self.runner, self.partition, kind, consumers)

    def report(self, name: str, body: Mapping[str, Any]) -> bool:
        """`workers.report("import", {"rows": 4000})` tells people something: `pyworkers reports --follow` shows it.

        The body is a JSON object of at most 4,096 bytes. Returns False when the report was dropped: this process gives
        more than 20 a second, or the broker cannot take it now. The broker keeps the last 5,000 reports of the fleet.
        """
        if self._reports is None:
            from goworkers_py.features.calls.api import Reports

            with self._lock:
                if self._reports is None:
                    self._reports = Reports(lambda: self.broker, self._identity)
        return self._reports.report(name, body)

    def _identity(self) -> str:
        return self._runner.identity if self._runner is not None else ""

    # --- in this process

    @property
    def runner(self) -> Runner:
        """Runs the jobs in this process. It is made when it is first needed: a producer loads no daemon."""
        if self._runner is None:
            from goworkers_py.api.runner import Runner

            with self._lock:
                if self._runner is None:
                    self._runner = Runner(self, self._declared)
        return self._runner

    def import_jobs(self) -> None:
        """Imports the modules of `require`, which declare their jobs."""
        self._declared.import_jobs(self.config)

    def our_work(self) -> OurWork | None:
        """The work that this program does, for the doctor and the pages; None if no code is registered here."""
        return self.runner.our_work()

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """`sys.exit(workers.run())` runs jobs until a signal asks to stop. Returns the exit code."""
        return self.runner.run(ready)

    def start(self) -> None:
        """`workers.start()` runs jobs in the background of your program until `workers.quit()`; handles no signals."""
        self.runner.start()

    def quit(self) -> None:
        """`workers.quit()` stops gracefully what `workers.start()` started."""
        if self._runner is not None:
            self._runner.quit()

    def stats_server(self, port: int, host: str = "127.0.0.1") -> WebServer:
        """`workers.stats_server(8080)` serves go-workers' `/stats` and the other pages of `stats_port`, beside `run` or
        `start`, until `stop()` of the returned server."""
        return self.runner.stats_server(port, host)

    # --- the test modes

    def travel(self, travelled_s: float) -> None:
        """From now on the clocks of all partitions show the time of this machine plus `travelled_s`."""
        with self._lock:
            for clock in self._clocks.values():
                clock.travel(travelled_s)

    @contextmanager
    def with_broker(self, open_broker: Callable[[Config], Broker]) -> Iterator[None]:
        """Inside the block, this App uses the broker that `open_broker` returns, whatever its configuration says. A
        call of `configure` inside the block holds after it."""
        if self._runner is not None and self._runner.in_background is not None:
            raise ConfigError("this App runs jobs in the background: call quit() before you test with it")
        with self._lock:
            config, partitions, before = self._config, self._take_partitions(), self._open_broker
            self._open_broker = open_broker
        try:
            yield
        finally:
            with self._lock:
                self._open_broker = before
                self._take_partitions()
                if self._config is config:
                    self.partitions.update(partitions)
            if self._config is not config:
                for partition in partitions.values():
                    partition.close()

    @contextmanager
    def with_client_link(self, link: ClientLink) -> Iterator[None]:
        """Inside the block, each push of this App passes the link, behind the declared ones."""
        self._declared.client_links.append(link)
        try:
            yield
        finally:
            self._declared.client_links.remove(link)
