"""`brokers`."""

from __future__ import annotations

import click
import simplejson

from goworkers_py.admin.broker_table import EVENTS, BrokerRow, broker_rows
from goworkers_py.brokers.open_broker import installed_brokers, our_brokers
from goworkers_py.cli.selection import as_json
from goworkers_py.cli.tables import TextTable


@click.command()
@as_json
def brokers(as_json: bool) -> None:
    """Lists the brokers, what each can do, and what it can lose."""
    rows = broker_rows({**our_brokers(), **installed_brokers()})
    if as_json:
        for row in rows:
            click.echo(simplejson.dumps(row.as_dict()))
        return
    for row in rows:
        _show(row)


def _show(row: BrokerRow) -> None:
    can = sorted(row.can().items(), key=lambda ability: not ability[1])  # first what it has
    lines = [["has" if has else "lacks", words] for words, has in can]
    lines += [["loses when " + event, loss] for event, loss in zip(EVENTS.values(), row.reliability, strict=True)]
    TextTable(row.title, "").add(lines)
    click.echo()
