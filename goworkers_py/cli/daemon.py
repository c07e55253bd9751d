"""`start`, `stop`, `restart`, `status` and `reload`: for machines without a service manager."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import click

import goworkers_py
from goworkers_py.cli.base import FAILED, TEMPORARY, USAGE, Command, configured, fail
from goworkers_py.config.options import Config
from goworkers_py.core.errors import ConfigError
from goworkers_py.system import daemon

QUEUES = click.option(
    "-q", "--queue", "queues", multiple=True, metavar="NAME[=THREADS]", help="a queue to work; may be repeated"
)


@click.command()
@QUEUES
@configured
def start(config: Config) -> None:
    """Works in the background; returns when it does. Needs `pidfile` and `logfile`."""
    _start(config)


def _holding(*others: str) -> Callable[[Command], Command]:
    """`configured`, for a command that looks for the process which holds the pidfile."""
    return lambda command: configured(command, {"pidfile", "directory", *others})


@click.command()
@_holding("timeout")
def stop(config: Config) -> None:
    """Stops what the pidfile names, and returns when it has ended. Running jobs have `timeout` seconds."""
    _needs_pidfile(config)
    pid = daemon.stop(config)
    click.echo("pyworkers does not run" if pid is None else f"process {pid} has ended")


@click.command()
@QUEUES
@configured
def restart(config: Config) -> None:
    """Stops, and starts again with new code, if that can be imported."""
    if not daemon.is_child():
        _needs_pidfile(config)
        _try_new_code(config)
        daemon.stop(config)
    _start(config)


@click.command()
@_holding()
def status(config: Config) -> None:
    """Whether what the pidfile names runs: exit code 0 or 1."""
    _needs_pidfile(config)
    pid = daemon.pidfile_of(config).holder()
    click.echo("pyworkers does not run" if pid is None else f"pyworkers runs, as process {pid}")
    sys.exit(0 if pid else FAILED)


@click.command()
@_holding("processes", "max_jobs", "max_memory", "require", "user", "group")
def reload(config: Config) -> None:
    """New code without a gap: replaces all of `processes`, one at a time, if the code can be imported. It is the
    signal USR2."""
    _needs_pidfile(config)
    if not config.needs_a_parent:
        raise ConfigError("reload is for `processes` of 2 or more; one process alone is restarted: pyworkers restart")
    pid = daemon.pidfile_of(config).holder()
    if pid is None:
        fail("pyworkers does not run", FAILED)
    _try_new_code(config)
    daemon.send(pid, signal.SIGUSR2)
    click.echo(f"process {pid} replaces its children; the log says how that goes")


def _try_new_code(config: Config) -> None:
    if not daemon.tried(config, goworkers_py.app.launcher):
        fail("the new code does not start; what runs was left alone", USAGE)


def _start(config: Config) -> None:
    works = daemon.start(config, goworkers_py.app.run)
    pid = daemon.pidfile_of(config).holder()
    if not works:
        fail(f"process {pid} does not work yet, and goes on trying; {config.logfile} says why", TEMPORARY)
    click.echo(f"pyworkers works, as process {pid}")


def _needs_pidfile(config: Config) -> None:
    if not config.pidfile:
        raise ConfigError("no pidfile is named: set it in the configuration file or with --pidfile")
