"""Runs this process from its configuration to its exit code: as a single process, as a parent or as a child."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from goworkers_py.core.errors import WorkersError
from goworkers_py.observe.health_report import STARTING, merged
from goworkers_py.runtime import forks
from goworkers_py.runtime.interpreter import collect_garbage_less_often
from goworkers_py.system.child_process import own_command
from goworkers_py.system.daemon import change_directory, daemon_context
from goworkers_py.system.early_signals import noted
from goworkers_py.system.inbox import Inbox
from goworkers_py.system.logs import setup_logging
from goworkers_py.system.main_loop import run_until_stopped
from goworkers_py.system.parent_link import ParentLink
from goworkers_py.system.ports import OpenPages, Ports
from goworkers_py.system.systemd import SystemdNotifier

if TYPE_CHECKING:
    from goworkers_py.brokers.contracts.fleet import Stats
    from goworkers_py.config.options import Config
    from goworkers_py.core.command import Obey
    from goworkers_py.runtime.daemon import Daemon

log = logging.getLogger(__name__)


def run(
    config: Config,
    make_daemon: Callable[[Obey], Daemon],
    stats: Callable[[], Stats],
    ready: Callable[[], None],
    open_pages: OpenPages,
) -> int:
    """`make_daemon` imports the user's code; `stats` asks the broker; `ready` is called when jobs are fetched."""
    with noted():
        parent = ParentLink.of_this_process(config.max_jobs, config.max_memory, stats if config.stats_port else None)
        forks.report_at_exit()
        if parent is not None:
            return _run_child(config, parent, make_daemon)
        command = own_command()
        with daemon_context(config):
            setup_logging(config.log_level, config.log_format, config.logfile)
            ports = Ports(config, stats, open_pages)
            return _run_main(config, command, make_daemon, ports, SystemdNotifier(ready=ready))


def _tell_of_root() -> None:
    """At level INFO, because root is usual in containers."""
    if os.geteuid() == 0:
        log.info("running as root, and the jobs too: set `user`, User= in the unit or USER in the Dockerfile")


def _run_child(config: Config, parent: ParentLink, make_daemon: Callable[[Obey], Daemon]) -> int:
    try:
        change_directory(config.directory)
        setup_logging(config.log_level, config.log_format, config.logfile)
        inbox = Inbox()
        return run_until_stopped(make_daemon(inbox.obey), inbox, parent, SystemdNotifier())
    except WorkersError as error:
        parent.fail(error)
        return 1


def _run_main(
    config: Config,
    command: list[str],
    make_daemon: Callable[[Obey], Daemon],
    ports: Ports,
    notifier: SystemdNotifier,
) -> int:
    if config.needs_a_parent:
        from goworkers_py.system.supervisor import Supervisor

        collect_garbage_less_often()
        supervisor = Supervisor(config.processes, command, notifier)
        with ports.probes(supervisor.report, supervisor.stats), ports.pages(knows_code=False):
            _tell_of_root()
            return supervisor.run()
    daemon: Daemon | None = None
    with ports.probes(lambda: daemon.report() if daemon else merged(STARTING, [])):
        inbox = Inbox()
        daemon = make_daemon(inbox.obey)
        with ports.pages(knows_code=True):
            _tell_of_root()
            return run_until_stopped(daemon, inbox, None, notifier)
