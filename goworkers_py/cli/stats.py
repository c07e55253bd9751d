"""`stats`."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import click

import goworkers_py
from goworkers_py.admin.foreign import foreign
from goworkers_py.admin.stats import Stats
from goworkers_py.cli.base import FAILED, connected
from goworkers_py.cli.tables import Table, duration
from goworkers_py.config.options import Config
from goworkers_py.core.errors import BrokerRefused


@click.command()
@click.option("--json", "as_json", is_flag=True, help="for programs")
@connected
def stats(config: Config, as_json: bool) -> None:
    """Processed and failed jobs, waiting jobs, queue sizes. Exit code 1 when a number could not be read."""
    connections, keys = goworkers_py.app.place
    figures = goworkers_py.app.inspector.stats()
    click.echo(json.dumps(figures.as_dict()) if as_json else _table(figures))
    of_another_type: list[str] = []
    with suppress(BrokerRefused):  # a user who may not ask for types
        of_another_type = foreign(connections, keys.types)
    for line in of_another_type:
        click.echo(f"pyworkers: {line}; it counts as 0 here", err=True)
    if of_another_type or goworkers_py.app.inspector.broken_counters():  # the log has told of these
        sys.exit(FAILED)


def _table(figures: Stats) -> str:
    rows = [(name, str(value)) for name, value in figures.as_dict().items() if name != "queues"]
    lines = [f"{name.replace('_', ' '):<12} {value:>12}" for name, value in rows]
    table = Table("queue", "size>", "latency>")
    queues = table.lines([(queue.name, str(queue.size), duration(queue.latency_s)) for queue in figures.queues])
    return "\n".join([*lines, "", *queues] if queues else lines)
