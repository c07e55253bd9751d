"""The tables of docs/brokers.md, from what the brokers say of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goworkers_py.admin.broker_table import EVENTS, BrokerRow, broker_rows
from goworkers_py.brokers.open_broker import our_brokers
from reference.markdown import code, table


def tables() -> Mapping[str, str]:
    rows = broker_rows(our_brokers())
    return {"features": _features(rows), "losses": _losses(rows)}


def _features(rows: Sequence[BrokerRow]) -> str:
    can = [row.can() for row in rows]
    cells = [[words, *("yes" if one[words] else "no" for one in can)] for words in can[0]]
    return table(["feature", *(code(row.title) for row in rows)], cells)


def _losses(rows: Sequence[BrokerRow]) -> str:
    return table(["broker", *EVENTS.values()], [[code(row.title), *row.reliability] for row in rows])
