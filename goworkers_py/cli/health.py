"""`health`."""

from __future__ import annotations

import json
import sys

import click

import goworkers_py
from goworkers_py.admin.owners import all_owners
from goworkers_py.cli.base import FAILED, configured, fail
from goworkers_py.config.options import Config
from goworkers_py.observe.escaping import one_line
from goworkers_py.observe.health_report import OF_SUSPECT, QUIET, STARTING, STOPPING

_TOLD = ("identity", "queues", "trouble")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="for programs")
@configured
def health(config: Config, as_json: bool) -> None:
    """Does a process of this machine fetch jobs of our queues? Exit code 0 or 1. `stats_port` tells more, for less."""
    ours = {queue.name for queue in config.queues}
    here = [owner for owner in all_owners(*goworkers_py.app.place) if (owner.alive or owner.trouble) and owner.here]
    found = [owner for owner in here if not ours or not ours.isdisjoint(owner.queues)]
    if as_json:
        click.echo(json.dumps([{field: getattr(one, field) for field in _TOLD} for one in found]))
    else:
        for one in found:
            click.echo(one_line(f"{one.identity} {one.trouble or 'fetches jobs'}"))
    if not found and not as_json:
        fail("no process of this machine works these queues", FAILED)
    # One that begins or drains is no trouble as long as another fetches; one with a suspect goes on by itself.
    troubles = ["" if OF_SUSPECT in one.trouble else one.trouble for one in found]
    stale = any(trouble not in ("", STARTING, QUIET, STOPPING) for trouble in troubles)
    sys.exit(FAILED if stale or all(troubles) else 0)
