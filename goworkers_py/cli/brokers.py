"""`brokers`."""

from __future__ import annotations

import click
import simplejson

from goworkers_py.admin.broker_table import EVENTS, BrokerRow, broker_rows
from goworkers_py.brokers.broker import Capability
from goworkers_py.brokers.open_broker import installed_brokers, our_brokers
from goworkers_py.cli.selection import as_json
from goworkers_py.cli.tables import Table


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
    can = [one for one in Capability if one in row.kind.capabilities]
    lacks = [one for one in Capability if one not in can]
    lines = [["has", one.value] for one in can] + [["lacks", one.value] for one in lacks]
    lines += [["loses when " + event, told] for event, told in zip(EVENTS.values(), row.reliability, strict=True)]
    Table(row.title, "").add(lines)
    click.echo()
