"""`run`, and what belongs to it: `config check`, `version`."""

from __future__ import annotations

import sys

import click

import goworkers_py
from goworkers_py.cli.base import FAILED, Words, configured, fail
from goworkers_py.config.options import Config


@click.command()
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="NAME[=THREADS]", help="a queue to work; may be repeated"
)
@configured
def run(config: Config) -> None:
    """Works until TERM or Ctrl-C; TSTP quiets, TTIN logs every thread's stack, USR2 replaces all of `processes`."""
    sys.exit(goworkers_py.run())


@click.command()
def version() -> None:
    """The versions of pyworkers and Python."""
    click.echo(f"pyworkers {goworkers_py.__version__} (Python {sys.version.split()[0]})")


@click.group(cls=Words)
def config() -> None:
    """The configuration."""


@config.command()
@click.option("-q", "--queue", "queues", multiple=True, metavar="NAME[=THREADS]", help="as for run")
@configured
def check(config: Config) -> None:
    """Reads the configuration and imports what it names, without connecting. Exit code 1 when registered jobs have a
    queue that no process with this configuration works."""
    launcher = goworkers_py.app.launcher()
    for manager in launcher.managers:
        click.echo(f"queue {manager.queue}: {manager.concurrency} threads")
    names = goworkers_py.app.registry.names()
    click.echo(f"jobs: {', '.join(names) or 'none registered'}")
    if unworked := goworkers_py.app.unworked(launcher):
        told = ", ".join(f"{queue} ({', '.join(classes)})" for queue, classes in unworked.items())
        fail(f"jobs have a queue that this configuration does not work: {told}; add [queue:NAME] or -q", FAILED)
    click.echo("the configuration is fine")
