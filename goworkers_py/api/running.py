"""The methods of an App that run its jobs in this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from goworkers_py.admin.inspector import Inspector
from goworkers_py.config.options import Config, QueueConfig
from goworkers_py.config.parsers import without_password
from goworkers_py.core.command import Obey
from goworkers_py.observe.health_report import STARTING, HealthReport, merged
from goworkers_py.policy.aggregates import Aggregates
from goworkers_py.policy.registry import Registry
from goworkers_py.runtime.health import Health
from goworkers_py.runtime.interpreter import collect_garbage_less_often
from goworkers_py.runtime.launcher import Launcher
from goworkers_py.system.run_process import run

if TYPE_CHECKING:
    from goworkers_py.web.server import StatsServer

log = logging.getLogger(__name__)


class Running:
    inspector: Inspector
    registry: Registry
    _config: Config | None
    _launcher: Launcher | None
    _stop_asked: threading.Event
    _health: Health | None  # of the launcher that was built last

    @property
    def config(self) -> Config:
        raise NotImplementedError

    def launcher(self, obey: Obey | None = None) -> Launcher:
        raise NotImplementedError

    def unworked(self, queues: Iterable[QueueConfig]) -> dict[str, list[str]]:
        raise NotImplementedError

    def _replace(self, config: Config | None) -> None:
        raise NotImplementedError

    def stats_server(self, port: int, host: str = "127.0.0.1") -> StatsServer:
        """`workers.stats_server(8080)` serves go-workers' `/stats` and the other pages of `stats_port`, beside `run` or
        `start`, until `stop()` of the returned server."""
        from goworkers_py.web.pages import serve  # a process without a port needs no http.server

        return serve(host, port, self._report, lambda: self.inspector.stats())

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """`sys.exit(workers.run())` runs jobs until a signal asks to stop. Returns the exit code."""
        try:
            return run(self.config, self._launcher_of_command, lambda: self.inspector.stats(), ready)
        finally:
            self._replace(self._config)  # the daemon's broker is closed

    def _launcher_of_command(self, obey: Obey) -> Launcher:
        collect_garbage_less_often()  # first: modules of `require` may choose otherwise
        launcher = self.launcher(obey)
        names, address = ", ".join(self.registry.names()), without_password(self.config.broker)
        log.info("jobs: %s; broker: %s", names or "none", address)
        if not self.registry.names() and not self.registry.any_handlers:
            log.warning("no jobs are registered, so every job will fail: name the modules with -r or `require`")
        self._warn_of_unworked(launcher)
        return launcher

    def _report(self) -> HealthReport:
        return self._health.report() if self._health else merged(STARTING, [])

    def _warn_of_unworked(self, launcher: Launcher) -> None:
        if queues := ", ".join(self.unworked(launcher.plan.queues)):
            log.warning("jobs are registered for queue %s, but this process fetches from others: add -q", queues)
        for told in Aggregates(self.registry).lacking():
            log.warning("%s", told)

    def start(self) -> None:
        """`workers.start()` runs jobs in the background of your program until `workers.quit()`; handles no signals."""
        self._stop_asked.clear()  # first: a `quit` of another thread from here on must not be lost
        launcher = self._launcher = self.launcher()
        self._warn_of_unworked(launcher)
        try:
            launcher.start(self._stop_asked)
        except BaseException:
            self._launcher = None  # it has stopped what it started
            self._replace(self._config)
            raise

    def quit(self) -> None:
        """`workers.quit()` stops gracefully what `workers.start()` started."""
        self._stop_asked.set()
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            try:
                launcher.stop()
            finally:
                self._replace(self._config)
