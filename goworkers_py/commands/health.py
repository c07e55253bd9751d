"""`health`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

import goworkers_py
from goworkers_py.commands.base import FAILED, configured, fail
from goworkers_py.config import Config
from goworkers_py.inspect.neighbours import neighbours
from goworkers_py.reports import QUIET, STARTING, STOPPING


@click.command()
@click.option("--json", "as_json", is_flag=True, help="for programs")
@configured
def health(config: Config, as_json: bool) -> None:
    """Does a process of this machine fetch jobs of our queues? Exit code 0 or 1. `stats_port` tells more, for less."""
    found = neighbours(*goworkers_py.app.place, [queue.name for queue in config.queues])
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found]))
    else:
        for one in found:
            click.echo(f"{one.identity} {one.trouble or 'fetches jobs'}")
    if not found and not as_json:
        fail("no process of this machine works these queues", FAILED)
    # One that begins or drains is no trouble as long as another fetches.
    stale = any(one.trouble not in ("", STARTING, QUIET, STOPPING) for one in found)
    sys.exit(FAILED if stale or all(one.trouble for one in found) else 0)
