"""`run`, and what belongs to it: `config check`, `version`."""

from __future__ import annotations

import sys

import click

import goworkers_py
from goworkers_py.commands.base import Words, configured
from goworkers_py.config import Config


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
    """Reads the configuration and imports what it names, without connecting."""
    launcher = goworkers_py.app.launcher()
    for manager in launcher.managers:
        click.echo(f"queue {manager.queue}: {manager.concurrency} threads")
    names = goworkers_py.app.registry.names()
    click.echo(f"jobs: {', '.join(names) or 'none registered'}")
    click.echo("the configuration is fine")
