"""`health`."""

from __future__ import annotations

import sys

import click
import simplejson

from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, configured, fail
from goworkers_py.core.escaping import one_line
from goworkers_py.observe.health_report import OF_SUSPECT, QUIET, STARTING, STOPPING

_FIELDS = ("identity", "queues", "trouble")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON, for programs")
@configured
def health(app: App, as_json: bool) -> None:
    """Tells whether a process of this machine fetches jobs. Exit code 0 when one fetches from the configured queues,
    else 1. The pages of `stats_port` say more and cost less."""
    configured_queues = {queue.name for queue in app.config.queues}
    here = [owner for owner in app.inspector.owners() if (owner.alive or owner.trouble) and owner.here]
    found = [owner for owner in here if not configured_queues or not configured_queues.isdisjoint(owner.queues)]
    if as_json:
        click.echo(simplejson.dumps([{field: getattr(owner, field) for field in _FIELDS} for owner in found]))
    else:
        for owner in found:
            click.echo(one_line(f"{owner.identity} {owner.trouble or 'fetches jobs'}"))
    if not found and not as_json:
        fail("no process on this machine fetches from these queues", FAILED)
    # A process that starts, is quiet or stops is no failure while another one fetches. A process with a suspect in
    # quarantine fetches again by itself.
    troubles = ["" if OF_SUSPECT in owner.trouble else owner.trouble for owner in found]
    stale = any(trouble not in ("", STARTING, QUIET, STOPPING) for trouble in troubles)
    sys.exit(FAILED if stale or all(troubles) else 0)
