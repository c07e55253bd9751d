"""`run` and `version`."""

from __future__ import annotations

import sys

import click

from goworkers_py.api.app import App
from goworkers_py.cli.base import configured_daemon
from goworkers_py.core.version import __version__


@click.command()
@configured_daemon
def run(app: App) -> None:
    """Runs jobs until TERM or Ctrl-C. TSTP quiets, TTIN logs every thread's stack, USR2 replaces all of `processes`."""
    sys.exit(app.run())


@click.command()
def version() -> None:
    """Prints the versions of pyworkers and Python."""
    click.echo(f"pyworkers {__version__} (Python {sys.version.split()[0]})")
