"""The tables of docs/brokers.md, from what the brokers say of themselves."""

from __future__ import annotations

from collections.abc import Mapping

from goworkers_py.admin.broker_table import broker_rows, features_in_markdown, losses_in_markdown
from goworkers_py.brokers.open_broker import our_brokers


def tables() -> Mapping[str, str]:
    rows = broker_rows(our_brokers())
    return {"features": "\n".join(features_in_markdown(rows)), "losses": "\n".join(losses_in_markdown(rows))}
