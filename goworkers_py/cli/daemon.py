"""`start`, `stop`, `restart`, `status` and `reload`: for machines without a service manager."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import click

from goworkers_py.api.app import App
from goworkers_py.cli.base import (
    FAILED,
    TEMPORARY,
    USAGE,
    Function,
    configured,
    configured_daemon,
    fail,
    no_jobs_flag,
    source_flags,
)
from goworkers_py.config.options import Config
from goworkers_py.config.partitions import MAIN
from goworkers_py.core.errors import ConfigError, WorkersError
from goworkers_py.core.escaping import one_line
from goworkers_py.core.identity import is_identity, pid_here
from goworkers_py.core.proc import parent_of
from goworkers_py.system import daemon


@click.command()
@configured_daemon
def start(app: App) -> None:
    """Starts in the background, and returns when it is ready. Needs `pidfile` and `logfile`."""
    _start(app)


def _with_pidfile(*other_flags: str) -> Callable[[Function], Function]:
    """`configured`, for a command that looks up the process in the pidfile."""
    return lambda command: configured(command, {"pidfile", "directory", *other_flags})


@click.command()
@_with_pidfile("timeout")
def stop(app: App) -> None:
    """Stops the process in the pidfile and returns at its end. Running jobs get `timeout` seconds."""
    _needs_pidfile(app.config)
    pid = daemon.stop(app.config, _tell)
    click.echo(_not_running(app.config) if pid is None else f"process {pid} has ended")


@click.command()
@configured_daemon
def restart(app: App) -> None:
    """Stops, and starts again with new code. It goes on as it is if the new code cannot be imported."""
    if not daemon.is_child():
        _needs_pidfile(app.config)
        _try_new_code(app)
        daemon.stop(app.config, _tell)
    _start(app)


@click.command()
@_with_pidfile()
def status(app: App) -> None:
    """Is the process in the pidfile running? Exit code 0 or 1. Where there are partitions, it shows those that the
    process works, as their brokers tell."""
    _needs_pidfile(app.config)
    pid = daemon.pidfile_of(app.config).holder()
    click.echo(_not_running(app.config) if pid is None else f"pyworkers is running as process {pid}")
    if pid and app.config.partitions:
        for line in _partitions(app, pid):
            click.echo(one_line(line))
    sys.exit(0 if pid else FAILED)


def _partitions(app: App, pid: int) -> Iterator[str]:
    for name in ("", *(partition.name for partition in app.config.partitions)):
        shown = name or MAIN
        try:
            found = app.partition(name).inspector.processes()
        except WorkersError as error:
            yield f"partition {shown}: not known: {error}"
            continue
        for process in found:
            if process.partition == shown and _is_of(pid, process.identity):
                yield (
                    f"partition {shown}: {process.identity}, {process.state}, "
                    f"{process.busy} of {process.concurrency} threads busy"
                )


def _is_of(pid: int, identity: str) -> bool:
    """The process of a partition is the one in the pidfile, or with `processes` a child of that."""
    here = pid_here(identity) if is_identity(identity) else None
    return here is not None and pid in (here, parent_of(here))


@click.command()
@source_flags
@no_jobs_flag
@_with_pidfile("processes", "max_jobs", "max_memory", "require", "user", "group")
def reload(app: App) -> None:
    """Replaces all `processes` by new ones with new code. They are replaced one at a time, and only if the new code can
    be imported. Sends the signal USR2."""
    _needs_pidfile(app.config)
    if not app.config.needs_a_parent:
        raise ConfigError("reload needs `processes` of 2 or more; for one process use: pyworkers restart")
    pid = daemon.pidfile_of(app.config).holder()
    if pid is None:
        fail(f"{_not_running(app.config)}; to start it: pyworkers start", FAILED)
    _try_new_code(app)
    daemon.send(pid, signal.SIGUSR2)
    click.echo(f"process {pid} is replacing its children; its log shows the progress")


def _try_new_code(app: App) -> None:
    if not daemon.imports_cleanly(app.config, app.runner.checked_plans):
        fail("the new code does not start, see above; the running process was left as it is", USAGE)


def _start(app: App) -> None:
    ready = daemon.start(app.config, app.run)
    pid = daemon.pidfile_of(app.config).holder()
    if not ready:
        fail(f"process {pid} is not ready yet and keeps trying; {app.config.logfile} says why", TEMPORARY)
    click.echo(f"pyworkers is running as process {pid}")


def _needs_pidfile(config: Config) -> None:
    if not config.pidfile:
        raise ConfigError(
            "no pidfile: set `pidfile` in the configuration file, or use --pidfile; `pyworkers processes` lists all "
            "that run, `pyworkers doctor` says what is wrong"
        )


def _not_running(config: Config) -> str:
    return f"pyworkers is not running: no process holds the pidfile {daemon.pidfile_of(config)}"


def _tell(line: str) -> None:
    with suppress(OSError):  # nobody reads stderr: the stop, and the start of a restart, go on
        click.echo(f"pyworkers: {line}", err=True)
