"""`config`: checks a configuration. Features have more commands of this group."""

from __future__ import annotations

import click

from goworkers_py.api.app import App
from goworkers_py.cli.base import (
    FAILED,
    CommandGroup,
    configured_daemon,
    fail,
)
from goworkers_py.features import BY_NAME
from goworkers_py.runtime.plan import Plan


@click.group(cls=CommandGroup)
def config() -> None:
    """Checks configurations, and stores them centrally."""


@config.command()
@configured_daemon
def check(app: App) -> None:
    """Checks the configuration and the modules that it names. Does not connect. Exit code 1 when registered jobs name a
    queue that no process with this configuration fetches from."""
    plans = app.runner.checked_plans()
    summary = [line for feature in BY_NAME for line in feature.summary(plans)]
    for plan in plans:
        of = f"partition {plan.config.partition}, " if plan.config.partition else ""
        for pool in plan.pools:
            title = str(pool) if len(pool.queues) > 1 else f"queue {pool.queues[0]}"
            click.echo(f"{of}{title}: {pool.concurrency} threads")
    names = app.registry.names()
    click.echo(f"jobs: {', '.join(names) or 'none registered'}")
    for line in summary:
        click.echo(line)
    for feature in BY_NAME:
        for warning in feature.warnings(app.registry):
            click.echo(f"warning: {warning}")
    for plan in plans:
        _refuse_unworked(app, plan)
    click.echo("the configuration is fine")


def _refuse_unworked(app: App, plan: Plan) -> None:
    if unworked := app.runner.unworked(plan):
        queues = ", ".join(f"{queue} ({', '.join(classes)})" for queue, classes in unworked.items())
        partition = plan.config.partition
        advice = f"name them in [partition:{partition}] queues" if partition else "add [queue:NAME] or -q"
        fail(f"jobs are registered for queues that are not configured: {queues}; {advice}", FAILED)
