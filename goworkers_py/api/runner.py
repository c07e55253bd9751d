"""Makes the daemon of an App, and runs it in this process."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from goworkers_py.api.destinations import destinations
from goworkers_py.api.planning import check_partitions, plan_of, worked_by
from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.brokers.open_broker import kind_of_broker
from goworkers_py.config.parsers import without_password
from goworkers_py.core import machine
from goworkers_py.core.errors import BrokerError, ConfigError, UnknownJob
from goworkers_py.features import FEATURES
from goworkers_py.observe.health_report import STARTING, HealthReport, merged
from goworkers_py.runtime.assembly import assemble
from goworkers_py.runtime.daemon import Daemon, PartitionWork
from goworkers_py.runtime.interpreter import AT_START, collect_garbage_less_often, keep_what_a_start_has_imported

if TYPE_CHECKING:
    from goworkers_py.api.declarations import Declarations
    from goworkers_py.api.partition import Partition
    from goworkers_py.brokers.broker import Broker
    from goworkers_py.config.options import Config
    from goworkers_py.core.command import Obey
    from goworkers_py.policy.our_work import OurWork
    from goworkers_py.policy.registry import Registry
    from goworkers_py.runtime.daemon import AnyLauncher
    from goworkers_py.runtime.launcher import Launcher
    from goworkers_py.runtime.plan import Plan
    from goworkers_py.runtime.service import Service
    from goworkers_py.web.port import OpenPort
    from goworkers_py.web.server import WebServer
    from goworkers_py.web.site.host import Host
    from goworkers_py.wire.message import Message

    class RunnableApp(Host, Protocol):
        """An App, as its runner needs it."""

        registry: Registry
        allow_no_jobs: bool

        def partition(self, name: str = "") -> Partition: ...

        def open_broker(self, config: Config) -> Broker: ...

        def timed(self, config: Config) -> Config: ...

        def close(self) -> None: ...


log = logging.getLogger(__name__)


class Runner:
    """The part of an App that makes its daemon, and runs it. It is made when it is first needed."""

    def __init__(self, app: RunnableApp, declared: Declarations) -> None:
        self.in_background: Daemon | None = None  # started by `start`
        self._app = app
        self._declared = declared
        self._stop_asked = machine.Event()
        self._daemon_built: Daemon | None = None  # the last one
        self._is_daemon = False  # the program is the daemon: `run` sets it. Otherwise its own threads are producers

    @property
    def identity(self) -> str:
        """Of this process in the fleet; empty: it runs no jobs."""
        return "" if self._daemon_built is None else self._daemon_built.main.identity

    # --- the plans

    def checked_plans(self) -> list[Plan]:
        """The plans, if a daemon may start with them. Checks the brokers' addresses too: for commands that open
        no broker."""
        plans = [plan for _, plan in self.plans()]
        for plan in plans:
            kind_of_broker(plan.config).check(plan.config)
        self.check_code(plans)
        return plans

    def plan(self) -> Plan:
        """Checks the configuration and imports the code that it names, without opening a broker."""
        return self.plan_of(self._app.partition())

    def plan_of(self, partition: Partition) -> Plan:
        plan = self.plan_from(partition.config)
        planned = {feature.name: feature.planned(plan, lambda: partition.client) for feature in FEATURES}
        return dataclasses.replace(plan, of_features={name: part for name, part in planned.items() if part is not None})

    def plan_from(self, config: Config) -> Plan:
        """The plan of any configuration, with nothing to be done beside running jobs."""
        plan = plan_of(self._declared, config)
        return dataclasses.replace(plan, config=self._app.timed(plan.config), destinations=destinations)

    def launcher(self, obey: Obey | None = None) -> Launcher:
        """Builds the daemon without starting it. The commands of the fleet go to `obey`."""
        partition = self._app.partition()
        return assemble(self.plan_of(partition), partition.broker, partition.clock, partition.hints, obey)

    def launcher_beside(self, config: Config, partition: Partition) -> tuple[Launcher, Broker]:
        """A launcher for the queues of `config` alone, and its broker, which is closed with it."""
        plan = self.plan_from(config)
        broker = self._app.open_broker(plan.config)
        return assemble(plan, broker, partition.clock, partition.hints), broker

    def daemon(self, obey: Obey | None = None) -> Daemon:
        """The launchers of all partitions that this process works."""
        plans = self.plans()
        self.check_code([plan for _, plan in plans])
        launchers = {plan.config.partition: self._launcher_of(partition, plan, obey) for partition, plan in plans}
        services: list[Service] = []
        if self._is_daemon:
            for feature in FEATURES:
                services += feature.of_daemon([*launchers.values()], self._app.config)
        daemon = self._daemon_built = Daemon(launchers, services)
        return daemon

    def _launcher_of(self, partition: Partition, plan: Plan, obey: Obey | None) -> AnyLauncher:
        def make_launcher(broker: Broker, on_quiet_asked: Callable[[], None] | None = None) -> Launcher:
            return assemble(plan, broker, partition.clock, partition.hints, obey, on_quiet_asked)

        work = PartitionWork(plan, partition.broker, make_launcher, obey)
        if self._is_daemon:
            work = work._replace(begin_term=partition.begin_term)
        found = next(filter(None, (feature.launcher(work) for feature in FEATURES)), None)
        partition.fenced = found is not None
        return found or make_launcher(partition.broker)

    def plans(self) -> list[tuple[Partition, Plan]]:
        """The plans of the partitions that a process works, the main one first. Hooks of the process are in the
        first."""
        config = self._app.config
        self._declared.import_jobs(config)
        check_partitions(self._declared, config)
        worked = config.worked or worked_by(self._declared, config)
        plans = [(partition, self.plan_of(partition)) for partition in map(self._app.partition, worked)]
        others = [
            (partition, dataclasses.replace(plan, before_start=(), during_drain=())) for partition, plan in plans[1:]
        ]
        return [*plans[:1], *others]

    def unworked(self, plan: Plan) -> dict[str, list[str]]:
        """The queues that registered jobs name and that the plan of their partition does not work, each with the
        classes of its jobs."""
        worked, named = {queue.name for queue in plan.queues}, self._app.registry.queues(plan.config.partition)
        return {queue: self._app.registry.names_in(queue) for queue in named if queue not in worked}

    # --- the daemon

    def stats_server(self, port: int, host: str = "127.0.0.1") -> WebServer:
        """See `App.stats_server`."""
        from goworkers_py.web.probes import serve  # a process without a port needs no http.server

        return serve(host, port, self._app.config, self._report, self._stats)

    def our_work(self) -> OurWork | None:
        """The work that this program does, for the doctor. None where no code is registered: then this is no program
        that runs jobs."""
        from goworkers_py.policy.our_work import OurWork

        daemon = self._daemon_built  # it has made its plans, and another thread may run it
        plan = self.plan() if daemon is None else daemon.plans[0]
        if not plan.registry.names() and not plan.registry.any_handlers:
            return None

        def knows(message: Message) -> bool:
            try:
                plan.registry.find(message)
            except UnknownJob:
                return False
            return True

        queues = {queue.name for queue in plan.queues}
        elsewhere = {
            queue: todo for feature in FEATURES for queue, todo in feature.queues().elsewhere(self._app.config).items()
        }
        return OurWork(queues, knows, plan.registry, elsewhere)

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """See `App.run`."""
        from goworkers_py.system.run_process import run

        try:
            return run(self._app.config, self._daemon_of_command, self._stats, ready, self._open_pages)
        finally:
            self._app.close()  # the daemon's broker is closed

    def _daemon_of_command(self, obey: Obey) -> Daemon:
        keep_what_a_start_has_imported()
        collect_garbage_less_often(AT_START)  # first: modules of `require` may choose otherwise
        try:
            return self._started(obey)
        finally:
            collect_garbage_less_often()

    def _started(self, obey: Obey) -> Daemon:
        self._is_daemon = True
        daemon = self.daemon(obey)
        log.info("jobs: %s; %s", ", ".join(self._app.registry.names()) or "none", _brokers(daemon))
        self._warn_of_unworked(daemon)
        return daemon

    def check_code(self, plans: Sequence[Plan]) -> None:
        """Raises ConfigError for a queue whose jobs would all fail: no class is registered, and it has no handler. The
        jobs may be those of others, who would find them in `retry`."""
        if self._app.allow_no_jobs or self._app.registry.names():
            return
        queues = [queue.name for plan in plans for queue in plan.queues if not plan.registry.handled(queue.name)]
        if queues or not any(plan.queues for plan in plans):
            of = f", and every job of queue{'s' * (len(queues) > 1)} {', '.join(queues)} would fail" if queues else ""
            raise ConfigError(
                f"no jobs are registered{of}: name the modules that declare them, with -r MODULE or `require`, or give "
                "the queue a handler: [queue:NAME] handler = MODULE:FUNCTION; to start all the same: --allow-no-jobs"
            )

    def _open_pages(self, knows_code: bool) -> OpenPort:
        from goworkers_py.web.port import WithoutCode, open_port  # a process without pages needs no jinja2

        return open_port(self._app if knows_code else WithoutCode(self._app), self._app.config.web)

    def _report(self) -> HealthReport:
        return self._daemon_built.report() if self._daemon_built else merged(STARTING, [])

    def _stats(self) -> Stats:
        """The figures of the brokers that this process works. Raises BrokerError while the main one does not answer."""
        names = [plan.config.partition for plan in self._daemon_built.plans] if self._daemon_built else [""]
        main = self._app.inspector.stats() if "" in names else Stats.nothing()
        others = {name: self._stats_of(name) for name in names if name}
        return dataclasses.replace(main, partitions=others) if others else main

    def _stats_of(self, partition: str) -> Stats | None:
        try:
            return self._app.partition(partition).inspector.stats()
        except BrokerError:
            return None

    def _warn_of_unworked(self, daemon: Daemon) -> None:
        for plan in daemon.plans:
            if queues := ", ".join(self.unworked(plan)):
                of = f" of partition {plan.config.partition}" if plan.config.partition else ""
                advice = "name them in its `queues`" if of else "add -q"
                log.warning("jobs are registered for queue %s%s, but this process fetches from others: %s",
                            queues, of, advice)  # fmt: skip
        for feature in FEATURES:
            for problem in feature.warnings(self._app.registry):
                log.warning("%s", problem)

    def start(self) -> None:
        """See `App.start`."""
        self._stop_asked.clear()  # first: a `quit` of another thread from here on must not be lost
        daemon = self.in_background = self.daemon()
        self._warn_of_unworked(daemon)
        try:
            daemon.start(self._stop_asked)
            if self._stop_asked.is_set():  # a hook of the start has called `quit`
                daemon.stop()
        except BaseException:
            self.in_background = None  # it has stopped what it started
            self._app.close()
            raise

    def quit(self) -> None:
        """See `App.quit`."""
        self._stop_asked.set()
        daemon, self.in_background = self.in_background, None
        if daemon is not None:
            try:
                daemon.stop()
            finally:
                self._app.close()


def _brokers(daemon: Daemon) -> str:
    """For the log: `broker: redis://h`, or one for each partition."""
    configs = [plan.config for plan in daemon.plans]
    brokers = (
        f"{_of(config.partition)}broker: {without_password(config.broker)}{_store(config)}" for config in configs
    )
    return "; ".join(brokers)


def _store(config: Config) -> str:
    return f", store: {without_password(config.store)}" if config.store else ""


def _of(partition: str) -> str:
    return f"partition {partition}, " if partition else ""
