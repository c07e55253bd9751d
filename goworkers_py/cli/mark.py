"""`mark`."""

from __future__ import annotations

import time

import click

from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, connected, fail
from goworkers_py.cli.noting import noted


@click.command()
@click.argument("label")
@connected
def mark(app: App, label: str) -> None:
    """Marks a deploy in the graphs of Sidekiq's Metrics page.

    LABEL stands at the current minute. A minute has one mark."""
    if not label.strip():
        raise click.UsageError("the label is empty")
    with noted(app.inspector, f"deploy {label}") as change:
        has = app.inspector.neighbours.mark_deploy(label, time.time())
        change.count = int(has is None)
    if has == label:
        click.echo("marked already")
    elif has is not None:
        fail(f"this minute has a mark already: {has}", FAILED)
