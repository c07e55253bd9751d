"""`run`, `config check` and `version`."""

from __future__ import annotations

import sys

import click

from goworkers_py.api.app import App
from goworkers_py.cli.base import FAILED, CommandGroup, configured, fail, queue_flags, worked_flags
from goworkers_py.core.version import __version__
from goworkers_py.policy.aggregates import Aggregates
from goworkers_py.runtime.plan import Plan


@click.command()
@queue_flags
@worked_flags
@configured
def run(app: App) -> None:
    """Runs jobs until TERM or Ctrl-C. TSTP quiets, TTIN logs every thread's stack, USR2 replaces all of `processes`."""
    sys.exit(app.run())


@click.command()
def version() -> None:
    """Prints the versions of pyworkers and Python."""
    click.echo(f"pyworkers {__version__} (Python {sys.version.split()[0]})")


@click.group(cls=CommandGroup)
def config() -> None:
    """Checks the configuration."""


@config.command()
@queue_flags
@worked_flags
@configured
def check(app: App) -> None:
    """Checks the configuration and the modules that it names. Does not connect. Exit code 1 when registered jobs name a
    queue that no process with this configuration fetches from."""
    plans = app.checked_plans()
    for plan in plans:
        of = f"partition {plan.config.partition}, " if plan.config.partition else ""
        for pool in plan.pools:
            title = str(pool) if len(pool.queues) > 1 else f"queue {pool.queues[0]}"
            click.echo(f"{of}{title}: {pool.concurrency} threads")
    names = app.registry.names()
    click.echo(f"jobs: {', '.join(names) or 'none registered'}")
    if periodic := [one.schedule for plan in plans for one in plan.periodic.jobs]:
        click.echo(f"periodic jobs: {', '.join(f'{one.name} ({one.rule})' for one in periodic)}")
    for told in Aggregates(app.registry).lacking():
        click.echo(f"warning: {told}")
    for plan in plans:
        _refuse_unworked(app, plan)
    click.echo("the configuration is fine")


def _refuse_unworked(app: App, plan: Plan) -> None:
    if unworked := app.unworked(plan):
        queues = ", ".join(f"{queue} ({', '.join(classes)})" for queue, classes in unworked.items())
        partition = plan.config.partition
        advice = f"name them in [partition:{partition}] queues" if partition else "add [queue:NAME] or -q"
        fail(f"jobs are registered for queues that are not configured: {queues}; {advice}", FAILED)
