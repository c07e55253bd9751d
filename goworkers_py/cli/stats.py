"""`stats`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

import click
import simplejson

from goworkers_py.api.app import App
from goworkers_py.brokers.contracts.fleet import ServerFacts, Stats
from goworkers_py.cli.base import FAILED, connected
from goworkers_py.cli.tables import TextTable, duration
from goworkers_py.core.byte_size import byte_size

# Figures of features that few use.
_ONLY_WHERE_SOME = {field.name for field in dataclasses.fields(Stats) if field.default == 0}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON, for programs")
@connected
def stats(app: App, as_json: bool) -> None:
    """Shows counters, jobs by state, queues and servers. Exit code 1 when a number could not be read."""
    damage = app.inspector.damage()
    figures, servers = app.inspector.stats(), app.inspector.broker_facts()
    if as_json:
        click.echo(
            simplejson.dumps({**figures.as_dict(), "servers": [dataclasses.asdict(server) for server in servers]})
        )
    else:
        click.echo("\n".join([_table(figures), "", *_servers(servers)] if servers else [_table(figures)]))
    for line in damage:
        click.echo(f"pyworkers: {line}; it counts as 0 here", err=True)
    sys.exit(FAILED if damage else 0)


def _row(name: str, value: float) -> tuple[str, str]:
    age = name.removesuffix("_s")
    return age.replace("_", " "), str(value) if age == name else duration(value)


def _table(figures: Stats) -> str:
    numbers = {name: value for name, value in figures.as_dict().items() if isinstance(value, int | float)}
    rows = [_row(name, value) for name, value in numbers.items() if value or name not in _ONLY_WHERE_SOME]
    lines = [f"{name:<16} {value:>12}" for name, value in rows]
    table = TextTable("queue", "size>", "latency>")
    queues = table.lines([(queue.name, str(queue.size), duration(queue.latency_s)) for queue in figures.queues])
    return "\n".join([*lines, "", *queues] if queues else lines)


def _servers(servers: Sequence[ServerFacts]) -> list[str]:
    """A limit of `-` is none."""
    table = TextTable("server", "version", "up>", "clients>", "memory>", "peak>", "limit>")
    return table.lines([
        (
            server.address,
            f"{server.product} {server.version}",
            "-" if server.uptime_s is None else duration(server.uptime_s),
            "-" if server.clients is None else str(server.clients),
            *("-" if size is None else byte_size(size)
              for size in (server.memory_bytes, server.peak_bytes, server.max_bytes)),
        )
        for server in servers
    ])  # fmt: skip
