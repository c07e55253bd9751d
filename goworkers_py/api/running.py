"""The methods of an App that run its jobs in this process."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goworkers_py.admin.doctor import OurWork
from goworkers_py.admin.inspector import Inspector
from goworkers_py.api.partition import Partition
from goworkers_py.brokers.broker import Broker
from goworkers_py.brokers.contracts.fleet import Stats
from goworkers_py.config.central import CentralSource
from goworkers_py.config.enqueue_options import NO_OPTIONS, EnqueueOptions
from goworkers_py.config.options import Config
from goworkers_py.config.parsers import without_password
from goworkers_py.core import machine
from goworkers_py.core.command import Obey
from goworkers_py.core.errors import BrokerError, ConfigError, UnknownJob
from goworkers_py.observe.health_report import STARTING, HealthReport, merged
from goworkers_py.policy.aggregates import Aggregates
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.commands.config_taker import ConfigTaker, log_start
from goworkers_py.runtime.daemon import Daemon
from goworkers_py.runtime.interpreter import collect_garbage_less_often
from goworkers_py.runtime.plan import Plan
from goworkers_py.system.run_process import run
from goworkers_py.wire.message import Message

if TYPE_CHECKING:
    from goworkers_py.web.port import OpenPort
    from goworkers_py.web.server import WebServer

log = logging.getLogger(__name__)


class Running:
    central: CentralSource | None = None  # of a command with --config-from
    allow_no_jobs = False  # of a command with --allow-no-jobs
    inspector: Inspector
    registry: Registry
    _config: Config | None
    _running: Daemon | None  # what `start` has started
    _stop_asked: machine.Event
    _daemon_built: Daemon | None  # the last one
    _is_daemon: bool

    @property
    def config(self) -> Config:
        raise NotImplementedError

    def daemon(self, obey: Obey | None = None) -> Daemon:
        raise NotImplementedError

    def partition(self, name: str = "") -> Partition:
        raise NotImplementedError

    def open_broker(self, config: Config) -> Broker:
        raise NotImplementedError

    def plan(self) -> Plan:
        raise NotImplementedError

    def result(self, jid: str, timeout: float | None = None, *, same_pool: bool = False) -> Any:
        raise NotImplementedError

    def checked_push(
        self,
        queue: str,
        job_class: str,
        args: Sequence[Any],
        options: EnqueueOptions = NO_OPTIONS,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Callable[[], str | None]:
        raise NotImplementedError

    def unworked(self, plan: Plan) -> dict[str, list[str]]:
        raise NotImplementedError

    def _replace(self, config: Config | None) -> None:
        raise NotImplementedError

    def stats_server(self, port: int, host: str = "127.0.0.1") -> WebServer:
        """`workers.stats_server(8080)` serves go-workers' `/stats` and the other pages of `stats_port`, beside `run` or
        `start`, until `stop()` of the returned server."""
        from goworkers_py.web.probes import serve  # a process without a port needs no http.server

        return serve(host, port, self.config, self._report, self._stats)

    def our_work(self) -> OurWork | None:
        """What this program works, for the doctor. None where no code is registered: then this is no program that runs
        jobs."""
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

        aggregates = {spec.name for spec in Aggregates(plan.registry).specs()}
        queues, echo = {queue.name for queue in plan.queues}, self.config.echo.queue
        return OurWork(queues, knows, aggregates, echo, plan.registry.names())

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """`sys.exit(workers.run())` runs jobs until a signal asks to stop. Returns the exit code."""
        try:
            return run(self.config, self._daemon_of_command, self._stats, ready, self._open_pages)
        finally:
            self._replace(self._config)  # the daemon's broker is closed

    def _daemon_of_command(self, obey: Obey) -> Daemon:
        collect_garbage_less_often()  # first: modules of `require` may choose otherwise
        self._is_daemon = True
        daemon = self.daemon(obey)
        if self.central is not None:
            log_start(self.central)
            broker = self.open_broker(self.central.home)
            daemon.config_taker = ConfigTaker(self.central, broker, self.config, daemon.launchers)
        log.info("jobs: %s; %s", ", ".join(self.registry.names()) or "none", _brokers(daemon))
        self._warn_of_unworked(daemon)
        return daemon

    def check_code(self, plans: Sequence[Plan]) -> None:
        """Raises ConfigError for a queue whose jobs would all fail: no class is registered, and it has no handler. The
        jobs may be those of others, who would find them in `retry`."""
        if self.allow_no_jobs or self.registry.names():
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

        return open_port(self if knows_code else WithoutCode(self), self.config.web)

    def _report(self) -> HealthReport:
        return self._daemon_built.report() if self._daemon_built else merged(STARTING, [])

    def _stats(self) -> Stats:
        """The figures of the brokers that this process works. Raises BrokerError while the main one does not answer."""
        names = [plan.config.partition for plan in self._daemon_built.plans] if self._daemon_built else [""]
        main = self.inspector.stats() if "" in names else Stats.nothing()
        others = {name: self._stats_of(name) for name in names if name}
        return dataclasses.replace(main, partitions=others) if others else main

    def _stats_of(self, partition: str) -> Stats | None:
        try:
            return self.partition(partition).inspector.stats()
        except BrokerError:
            return None

    def _warn_of_unworked(self, daemon: Daemon) -> None:
        for plan in daemon.plans:
            if queues := ", ".join(self.unworked(plan)):
                of = f" of partition {plan.config.partition}" if plan.config.partition else ""
                advice = "name them in its `queues`" if of else "add -q"
                log.warning("jobs are registered for queue %s%s, but this process fetches from others: %s",
                            queues, of, advice)  # fmt: skip
        for told in Aggregates(self.registry).lacking():
            log.warning("%s", told)

    def start(self) -> None:
        """`workers.start()` runs jobs in the background of your program until `workers.quit()`; handles no signals."""
        self._stop_asked.clear()  # first: a `quit` of another thread from here on must not be lost
        daemon = self._running = self.daemon()
        self._warn_of_unworked(daemon)
        try:
            daemon.start(self._stop_asked)
            if self._stop_asked.is_set():  # a hook of the start has called `quit`
                daemon.stop()
        except BaseException:
            self._running = None  # it has stopped what it started
            self._replace(self._config)
            raise

    def quit(self) -> None:
        """`workers.quit()` stops gracefully what `workers.start()` started."""
        self._stop_asked.set()
        daemon, self._running = self._running, None
        if daemon is not None:
            try:
                daemon.stop()
            finally:
                self._replace(self._config)


def _brokers(daemon: Daemon) -> str:
    """For the log: `broker: redis://h`, or one for each partition."""
    configs = [plan.config for plan in daemon.plans]
    told = (f"{_of(one.partition)}broker: {without_password(one.broker)}{_store(one)}" for one in configs)
    return "; ".join(told)


def _store(config: Config) -> str:
    return f", store: {without_password(config.store)}" if config.store else ""


def _of(partition: str) -> str:
    return f"partition {partition}, " if partition else ""
