"""`history`, `failures`."""

from __future__ import annotations

import dataclasses

import click
import simplejson

from goworkers_py.api.app import App
from goworkers_py.cli.base import connected
from goworkers_py.cli.listing import KINDS, list_rows
from goworkers_py.cli.selection import as_json, limit
from goworkers_py.cli.tables import TextTable


@click.command()
@click.option("--days", type=click.IntRange(1, 1_825), default=30, show_default=True, help="so many days, today first")
@as_json
@connected
def history(app: App, days: int, as_json: bool) -> None:
    """Shows how many jobs were processed on each day. Those of pyworkers are counted by queue too. Days are in UTC."""
    found = app.inspector.history(days)
    if as_json:
        for day in found:
            queues = {name: counts._asdict() for name, counts in day.queues.items()}
            click.echo(simplejson.dumps(dataclasses.asdict(day) | {"queues": queues}))
        return
    table = TextTable("day", "processed>", "failed>", "queue")
    for day in found:
        table.add([(day.date, str(day.processed), str(day.failed), "(all)")])
        table.add([("", str(counts.processed), str(counts.failed), queue) for queue, counts in day.queues.items()])


@click.command()
@limit
@as_json
@connected
def failures(app: App, limit: int, as_json: bool) -> None:
    """Counts the jobs in retry and the dead ones by class and error."""
    list_rows(KINDS, app.inspector.failures(), limit, as_json, "failures")
