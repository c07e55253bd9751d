"""`mark`."""

from __future__ import annotations

import time

import click

import goworkers_py
from goworkers_py.brokers.redis.sidekiq_metrics import mark as mark_deploy
from goworkers_py.cli.base import FAILED, connected, fail
from goworkers_py.config.options import Config


@click.command()
@click.argument("label")
@connected
def mark(config: Config, label: str) -> None:
    """Marks a deploy: a line at this minute in the graphs of Sidekiq's Metrics page."""
    if not label.strip():
        raise click.UsageError("the label is empty")
    has = mark_deploy(*goworkers_py.app.place, label, time.time())
    if has == label:
        click.echo("marked already")
    elif has is not None:
        fail(f"this minute has a mark already: {has}", FAILED)
